// SPDX-License-Identifier: Apache-2.0
// Support for tests: a PostgreSQL server of their own.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/engines/postgres/detail/message_writer.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/process.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/unix_stream.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_any.hpp>
#include <tests/support/temporary_folder.hpp>

#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gyre::test {

/// Settings of a postgres_server.
struct postgres_settings {
  /// Such as "max_connections=5".
  std::vector<std::string> parameters = {};
  /// Lines of pg_hba.conf before "local all all trust", such as
  /// "local all scram_user scram-sha-256". The user postgres is always trusted on the Unix socket.
  std::vector<std::string> logins = {};
  /// Listens on 127.0.0.1, too, at a port of its own; TLS needs that.
  bool has_tcp = false;
  /// In PEM; empty: no TLS.
  std::string certificate = {};
  std::string key = {};
  std::string client_authorities = {};
  /// Keeps the data on a disk, and waits for it at each commit (fsync), as servers in production
  /// do. Otherwise the data is in memory, if there is room.
  bool is_on_disk = false;
};

/// Runs `postgres`, which tools/setup installs, with an empty database. It listens on a Unix socket
/// in a temporary folder, and ends with the object. Root runs it as the user postgres.
///
/// The first server of a user on a machine fills a folder beside the temporary ones, by initdb, of
/// which all servers copy their data.
///
/// Thread-safety, Lifetime: as io::process; the constructor runs the loop.
class postgres_server {
 public:
  explicit postgres_server(event_loop& loop, postgres_settings settings = {})
      : loop_(loop), settings_(std::move(settings)), programs_(find_programs()) {
    if (::geteuid() == 0) owner_ = ::getpwnam("postgres");
    if (::geteuid() == 0 && owner_ == nullptr) {
      throw std::runtime_error("there is no user postgres: run tools/setup test");
    }
    mark_as_used();
    sync_wait(loop_, make_data());
    sync_wait(loop_, start_again());
  }
  ~postgres_server() { kill_processes(); }
  postgres_server(const postgres_server&) = delete;
  postgres_server& operator=(const postgres_server&) = delete;

  /// For host_port: "unix:/…/.s.PGSQL.5432".
  std::string address() const { return "unix:" + socket(); }
  std::string socket() const {
    return folder_ / (".s.PGSQL." + std::to_string(settings_.has_tcp ? port_ : default_port));
  }
  /// The folder of the socket, as URLs of PostgreSQL name it.
  const std::string& folder() const noexcept { return folder_.path(); }
  /// With `has_tcp`.
  int port() const noexcept { return port_; }
  static const char* user() noexcept { return "postgres"; }
  static const char* database() noexcept { return "postgres"; }
  std::string log() const { return folder_.content("log"); }
  /// The postmaster and the processes that it has started; none after kill().
  std::vector<int> processes() const {
    std::vector<int> found;
    if (!process_ || process_->pid() <= 0) return found;
    const int postmaster = process_->pid();
    found.push_back(postmaster);
    const std::string path =
        "/proc/" + std::to_string(postmaster) + "/task/" + std::to_string(postmaster) + "/children";
    std::ifstream children(path);
    for (int each = 0; children >> each;) found.push_back(each);
    return found;
  }

  /// Kills all of its processes (SIGKILL).
  task<> kill() {
    kill_processes();
    co_await process_->wait();
  }
  /// Starts it after kill(), with its data, and waits until it answers.
  task<> start_again() {
    for (int tries = 0; tries < max_tries; ++tries) {
      if (settings_.has_tcp) port_ = random_port();
      process_.reset();
      process_.emplace(loop_, command(), process_options());
      auto both = when_any(wait_until_ready(), wait_for_end());
      const auto first = co_await std::move(both);
      if (first.index == 0) co_return;
    }
    throw std::runtime_error("postgres does not start: " + log());
  }
  /// All of its processes answer no more, until resume().
  void pause() {
    for (const int each : processes()) {
      ::kill(each, SIGSTOP);
      while (!has_stopped(each)) ::sched_yield();
    }
  }
  void resume() {
    for (const int each : processes()) ::kill(each, SIGCONT);
  }

 private:
  // A port may be taken, and processes of a killed server may still hold its memory.
  static constexpr int max_tries = 1000;
  static constexpr int default_port = 5432;

  // In memory, if that has space for many servers: each begins with a thousand files.
  static std::string fast_folder() {
    const char* const memory = "/dev/shm/";
    constexpr std::uint64_t needed = std::uint64_t{2} << 30;
    struct ::statvfs space{};
    const bool is_large =
        ::statvfs(memory, &space) == 0 && space.f_bavail >= needed / space.f_frsize;
    return is_large && ::access(memory, W_OK) == 0 ? memory : ::testing::TempDir();
  }
  static constexpr const char* folder_prefix = "postgres_";

  static unique_fd lock(const std::string& path, int flags, int operation) {
    unique_fd file(::open(path.c_str(), flags | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (!file || ::flock(file.get(), operation) != 0) return {};
    return file;
  }
  // Removes the folders that killed tests have left, which are in memory. A folder in use is
  // locked; the result keeps others from removing a new one that is not locked yet.
  static unique_fd remove_unused_folders() {
    unique_fd guard = lock(fast_folder() + "gyre_postgres_" + std::to_string(::geteuid()) + ".lock",
                           O_RDWR | O_CREAT, LOCK_EX);
    std::error_code error;
    for (const auto& each : std::filesystem::directory_iterator(fast_folder(), error)) {
      const std::string name = each.path().filename();
      if (!name.starts_with(std::string(folder_prefix) + "gyre_")) continue;
      const unique_fd unused = lock(each.path(), O_RDONLY | O_DIRECTORY, LOCK_EX | LOCK_NB);
      if (unused) std::filesystem::remove_all(each.path(), error);
    }
    return guard;
  }
  void mark_as_used() {
    usage_ = lock(folder_.path(), O_RDONLY | O_DIRECTORY, LOCK_SH);
    guard_.reset();
  }

  static std::string find_programs() {
    std::filesystem::path newest;
    std::error_code error;
    for (const auto& each : std::filesystem::directory_iterator("/usr/lib/postgresql", error)) {
      if (exists(each.path() / "bin/initdb") && each.path() > newest) newest = each.path();
    }
    if (newest.empty()) {
      throw std::runtime_error("there is no /usr/lib/postgresql/*/bin: run tools/setup test");
    }
    return newest / "bin";
  }
  static int random_port() {
    std::random_device random;
    return std::uniform_int_distribution<int>(20000, 32000)(random);
  }

  // A command that runs as the user of the server, and ends with this process.
  std::vector<std::string> as_owner(std::vector<std::string> arguments) const {
    std::vector<std::string> command = {"setpriv", "--pdeathsig=KILL"};
    if (owner_ != nullptr) {
      const std::string user = std::to_string(owner_->pw_uid);
      const std::string group = std::to_string(owner_->pw_gid);
      command.insert(command.end(), {"--reuid=" + user, "--regid=" + group, "--clear-groups"});
    }
    command.emplace_back("--");
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
  }
  io::process_options process_options() {
    log_ = unique_fd(::open((folder_ / "log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                            S_IRUSR | S_IWUSR));
    return {.input = io::stdio::null(),
            .output = io::stdio::copy_of(log_.get()),
            .error = io::stdio::with_output(),
            .environment = std::vector<std::string>{"LC_ALL=C", "PATH=/usr/bin:/bin"},
            .directory = "/"};
  }
  task<> run(std::vector<std::string> arguments) {
    const std::vector<std::string> command = as_owner(std::move(arguments));
    io::process program(loop_, command, process_options());
    const io::exit_status status = co_await program.wait();
    if (!status.success()) throw std::runtime_error(command.back() + ": " + log());
  }
  void give_to_owner(const std::string& path) const {
    if (owner_ == nullptr) return;
    if (::chown(path.c_str(), owner_->pw_uid, owner_->pw_gid) != 0) {
      throw std::system_error(errno, std::generic_category(), path);
    }
  }

  // The folder that initdb has filled, made while no other process makes it.
  task<std::string> find_template() {
    const ::uid_t user = owner_ != nullptr ? owner_->pw_uid : ::geteuid();
    const std::string name = fast_folder() + "gyre_postgres_" +
                             std::filesystem::path(programs_).parent_path().filename().string() +
                             "_2_" + std::to_string(user);
    const unique_fd guard = lock(name + ".lock", O_RDWR | O_CREAT, LOCK_EX);
    if (!guard) throw std::system_error(errno, std::generic_category(), name + ".lock");
    struct ::stat status{};
    if (::stat(name.c_str(), &status) == 0 && status.st_uid == user) co_return name;
    const temporary_folder made(fast_folder());  // is renamed, so in the same file system
    give_to_owner(made.path());
    const std::string data = made / "data";
    std::vector<std::string> initdb = {
        programs_ + "/initdb", "--pgdata=" + data, "--username=postgres", "--auth=trust",
        "--encoding=UTF8",     "--locale=C",       "--wal-segsize=1",     "--no-sync"};
    co_await run(std::move(initdb));
    // Most of the copy of each server would be databases that no test uses.
    std::vector<std::string> drop = {
        "sh", "-c",
        "printf '%s\\n' 'update pg_database set datistemplate = false' "
        "'drop database template0' 'drop database template1' | \"$0\" --single -D \"$1\" postgres",
        programs_ + "/postgres", data};
    co_await run(std::move(drop));
    std::filesystem::rename(data, name);
    co_return name;
  }

  task<> make_data() {
    give_to_owner(folder_.path());
    const std::string source = co_await find_template();
    std::vector<std::string> copy = {"cp", "-a", source, data()};
    co_await run(std::move(copy));
    std::string logins = "local all postgres trust\n";
    for (const std::string& each : settings_.logins) logins.append(each).append("\n");
    logins.append("local all all trust\n");
    write_file(data() + "/pg_hba.conf", logins);
    if (!settings_.certificate.empty()) {
      write_file(data() + "/server.crt", settings_.certificate);
      write_file(data() + "/server.key", settings_.key);
    }
    if (!settings_.client_authorities.empty()) {
      write_file(data() + "/root.crt", settings_.client_authorities);
    }
  }
  void write_file(const std::string& path, const std::string& text) const {
    std::ofstream(path, std::ios::trunc) << text;
    ::chmod(path.c_str(), S_IRUSR | S_IWUSR);
    give_to_owner(path);
  }
  std::string data() const { return folder_ / "data"; }

  std::vector<std::string> command() const {
    std::vector<std::string> arguments = {programs_ + "/postgres", "-D", data()};
    const auto set = [&](const std::string& setting) {
      arguments.emplace_back("-c");
      arguments.push_back(setting);
    };
    set("unix_socket_directories=" + folder_.path());
    set(settings_.has_tcp ? "listen_addresses=127.0.0.1" : "listen_addresses=");
    set("port=" + std::to_string(settings_.has_tcp ? port_ : default_port));
    if (!settings_.is_on_disk) set("fsync=off");
    set("dynamic_shared_memory_type=mmap");  // files that remain are removed with the folder
    set("shared_buffers=8MB");
    set("jit=off");
    if (!settings_.certificate.empty()) set("ssl=on");
    if (!settings_.client_authorities.empty()) set("ssl_ca_file=root.crt");
    for (const std::string& each : settings_.parameters) set(each);
    return as_owner(std::move(arguments));
  }

  // The signal is delivered a moment later than it is sent.
  static bool has_stopped(int process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string text;
    std::getline(file, text);
    const std::size_t name_end = text.rfind(')');
    if (name_end == std::string::npos) return true;  // it has ended
    const char state = text[name_end + 2];
    return state == 'T' || state == 't' || state == 'Z' || state == 'X';
  }

  // Also removes its segment of shared memory, which would remain, and of which a system has few.
  void kill_processes() const {
    if (!process_ || process_->pid() <= 0) return;
    // A postmaster that runs may start a process after the list was made.
    ::kill(process_->pid(), SIGSTOP);
    while (!has_stopped(process_->pid())) ::sched_yield();
    const std::vector<int> killed = processes();
    std::ifstream facts(data() + "/postmaster.pid");
    std::string line;
    for (int lines = 0; lines < 6; ++lines) std::getline(facts, line);
    int key = 0;
    int segment = -1;
    facts >> key >> segment;
    for (const int each : killed) ::kill(each, SIGKILL);
    if (segment >= 0) ::shmctl(segment, IPC_RMID, nullptr);
  }

  task<> wait_for_end() { co_await process_->wait(); }
  task<> wait_until_ready() {
    for (;;) {
      auto attempt = as_result(is_ready());
      const auto result = co_await std::move(attempt);
      if (result.has_value() && result.value()) co_return;
      co_await sleep_for(std::chrono::milliseconds{2});
    }
  }
  // Whether it accepts the login of its user. Asks only if its file says so: each refused login is
  // a process of the server, and many of them delay its recovery.
  task<bool> is_ready() {
    std::ifstream facts(data() + "/postmaster.pid");
    std::string line;
    for (int lines = 0; lines < 8; ++lines) std::getline(facts, line);
    if (!line.starts_with("ready")) co_return false;
    const auto path = net::endpoint::parse(address());
    net::unix_stream stream = co_await net::connect_unix(*path);
    io::buffer request;
    postgres::detail::message_writer(request).startup(user(), database(), {});
    co_await stream.write_all(request.bytes());
    std::array<std::byte, 1> first{};
    co_await stream.read_exactly(first);
    co_return first[0] == std::byte{'R'};
  }

  event_loop& loop_;
  const postgres_settings settings_;
  const std::string programs_;
  const ::passwd* owner_ = nullptr;
  unique_fd guard_ = remove_unused_folders();
  temporary_folder folder_{(settings_.is_on_disk ? ::testing::TempDir() : fast_folder()) +
                           folder_prefix};
  unique_fd usage_;
  unique_fd log_;
  int port_ = 0;
  std::optional<io::process> process_;
};

}  // namespace gyre::test
