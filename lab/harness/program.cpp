// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/program.hpp>

#include <lab/harness/affinity.hpp>
#include <lab/harness/network/socket.hpp>

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>
#include <system_error>

namespace lab {
namespace {

passwd find_user(const std::string& user) {
  errno = 0;
  const passwd* const found = getpwnam(user.c_str());
  if (found != nullptr) return *found;
  throw std::system_error(errno != 0 ? errno : ENOENT, std::generic_category(), "user " + user);
}

bool become(const passwd& user) {
  return initgroups(user.pw_name, user.pw_gid) == 0 && setgid(user.pw_gid) == 0 &&
         setuid(user.pw_uid) == 0;
}

bool redirect_output(const std::string& file) {
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int log = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  return null >= 0 && log >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(log, STDOUT_FILENO) >= 0 &&
         dup2(log, STDERR_FILENO) >= 0;
}

// The new process, up to its exec.
[[noreturn]] void become_program(const program_plan& plan, const passwd* user, pid_t parent) {
  constexpr int not_executed = 127;
  try {
    pin_thread(plan.cpus);
  } catch (const std::exception&) {
    _exit(not_executed);
  }
  unsetenv("LD_PRELOAD");
  if (!plan.output.empty() && !redirect_output(plan.output)) _exit(not_executed);
  if (user != nullptr && !become(*user)) _exit(not_executed);
  prctl(PR_SET_PDEATHSIG, plan.death_signal);  // after the change of the user, which resets it
  std::vector<char*> arguments;
  for (const std::string& each : plan.words) arguments.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  if (getppid() == parent) execvp(arguments[0], arguments.data());
  _exit(not_executed);
}

// The folders of this process.
std::set<std::string>& scratch_paths() {
  static std::set<std::string> paths;
  return paths;
}

void remove_folder(const std::string& path) noexcept {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

// The CPU time of the children that have ended, of which a server's sessions are some: fields of
// /proc/PID/stat, in which a program's name ends with the last ')'.
double seconds_of_ended_children(const std::string& folder) {
  constexpr int fields_before = 13;  // from the name to cutime
  std::ifstream file(folder + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int n = 0; n < fields_before; ++n) fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

void add_usage(pid_t process, network::usage& sum) {
  clockid_t clock = 0;
  timespec used{};
  if (clock_getcpuclockid(process, &clock) == 0) clock_gettime(clock, &used);
  sum.cpu_seconds += static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
  const std::string folder = "/proc/" + std::to_string(process);
  sum.cpu_seconds += seconds_of_ended_children(folder);
  std::ifstream status(folder + "/status");
  for (std::string word; status >> word;) {
    std::uint64_t kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) sum.peak_memory_bytes += kibibytes * 1024;
    if (word == "VmRSS:" && status >> kibibytes) sum.memory_bytes += kibibytes * 1024;
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  std::ifstream children(folder + "/task/" + std::to_string(process) + "/children");
  for (pid_t child = 0; children >> child;) add_usage(child, sum);
}

}  // namespace

pid_t start_program(const program_plan& plan) {
  passwd user{};
  if (!plan.user.empty()) user = find_user(plan.user);
  const pid_t parent = getpid();
  const pid_t child = network::checked(fork(), "fork");
  if (child == 0) become_program(plan, plan.user.empty() ? nullptr : &user, parent);
  return child;
}

int run_program(const program_plan& plan) {
  const pid_t child = start_program(plan);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "waitpid");
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool has_user(const std::string& user) { return getpwnam(user.c_str()) != nullptr; }

void give_to_user(const std::string& path, const std::string& user) {
  const passwd found = find_user(user);
  network::checked(chown(path.c_str(), found.pw_uid, found.pw_gid), "chown");
}

network::usage used_by(pid_t process) {
  network::usage sum;
  add_usage(process, sum);
  return sum;
}

scratch_folder::scratch_folder()
    : path_((std::filesystem::temp_directory_path() / "gyre-lab-XXXXXX").string()) {
  if (mkdtemp(path_.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), "mkdtemp " + path_);
  }
  scratch_paths().insert(path_);
}

scratch_folder::~scratch_folder() {
  scratch_paths().erase(path_);
  remove_folder(path_);
}

void scratch_folder::remove_all() noexcept {
  for (const std::string& each : scratch_paths()) remove_folder(each);
}

}  // namespace lab
