// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/process.hpp>

#include <gyre/base/error.hpp>

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

namespace gyre::io {
namespace {

constexpr int standard_streams = 3;

/// The kernel reaps children as they end while SIGCHLD is ignored, as inherited from the program
/// that has started this one: their status would be lost, and their numbers free for others.
void keep_ended_children() noexcept {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  struct sigaction action{};
  if (::sigaction(SIGCHLD, nullptr, &action) != 0) return;
  const bool is_ignored = (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
  if (!is_ignored && (action.sa_flags & SA_NOCLDWAIT) == 0) return;
  if (is_ignored) action.sa_handler = SIG_DFL;
  action.sa_flags &= ~SA_NOCLDWAIT;
  ::sigaction(SIGCHLD, &action, nullptr);
}

void check(int error, const std::string& call) {
  if (error != 0) gyre::detail::throw_system_error(error, call.c_str());
}

/// posix_spawn_file_actions_t.
class file_actions {
 public:
  file_actions() { check(::posix_spawn_file_actions_init(&actions_), "posix_spawn"); }
  file_actions& operator=(file_actions&&) = delete;
  ~file_actions() { ::posix_spawn_file_actions_destroy(&actions_); }

  void duplicate(int source, int target) {
    check(::posix_spawn_file_actions_adddup2(&actions_, source, target), "posix_spawn");
  }
  void change_directory(const std::string& path) {
    if (path.find('\0') != std::string::npos) {
      throw std::invalid_argument("gyre::io::process: the directory has a null character");
    }
    check(::posix_spawn_file_actions_addchdir_np(&actions_, path.c_str()), "posix_spawn");
  }
  /// Descriptors of this program that lack FD_CLOEXEC.
  void close_others() {
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
    check(::posix_spawn_file_actions_addclosefrom_np(&actions_, standard_streams), "posix_spawn");
#endif
#endif
  }
  const posix_spawn_file_actions_t* get() const noexcept { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

/// posix_spawnattr_t: no signal is blocked, and SIGPIPE and SIGCHLD are not ignored.
class spawn_attributes {
 public:
  spawn_attributes() {
    check(::posix_spawnattr_init(&attributes_), "posix_spawn");
    sigset_t signals;
    ::sigemptyset(&signals);
    ::posix_spawnattr_setsigmask(&attributes_, &signals);
    ::sigaddset(&signals, SIGPIPE);
    ::sigaddset(&signals, SIGCHLD);
    ::posix_spawnattr_setsigdefault(&attributes_, &signals);
    add(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  /// `group`: 0: one of its own.
  void set_group(pid_t group) noexcept {
    ::posix_spawnattr_setpgroup(&attributes_, group);
    add(POSIX_SPAWN_SETPGROUP);
  }
  void make_session() noexcept { add(POSIX_SPAWN_SETSID); }
  spawn_attributes& operator=(spawn_attributes&&) = delete;
  ~spawn_attributes() { ::posix_spawnattr_destroy(&attributes_); }
  const posix_spawnattr_t* get() const noexcept { return &attributes_; }

 private:
  void add(int flags) noexcept {
    flags_ |= flags;
    ::posix_spawnattr_setflags(&attributes_, static_cast<short>(flags_));
  }

  posix_spawnattr_t attributes_{};
  int flags_ = 0;
};

/// The array of pointers that exec() takes. Throws std::invalid_argument for a text with a null
/// character, which would end it.
std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& each : texts) {
    if (each.find('\0') != std::string::npos) {
      throw std::invalid_argument(
          "gyre::io::process: an argument, or a variable, has a null character");
    }
    pointers.push_back(const_cast<char*>(each.c_str()));  // NOLINT: exec() does not change it
  }
  pointers.push_back(nullptr);
  return pointers;
}

unique_fd opened(int descriptor, const char* call) {
  unique_fd owned(descriptor);
  if (!owned) gyre::detail::throw_errno(call);
  return owned;
}

/// A copy that no standard stream of the child replaces.
unique_fd copy_above_standard_streams(int descriptor) {
  return opened(::fcntl(descriptor, F_DUPFD_CLOEXEC, standard_streams),
                "gyre::io::process: a descriptor for the child");
}

}  // namespace

/// A child that is about to start: its ends of the standard streams, and this process's.
class process::starter {
 public:
  starter(event_loop& loop, const process_options& options) : loop_(loop), options_(options) {
    using kind = stdio::kind;
    if (options.input.kind_ == kind::with_output || options.output.kind_ == kind::with_output) {
      throw std::invalid_argument("gyre::io::stdio: with_output() is for the error output only");
    }
    connect(options.input, STDIN_FILENO);
    connect(options.output, STDOUT_FILENO);
    if (options.error.kind_ != kind::with_output) {
      connect(options.error, STDERR_FILENO);
    } else if (const unique_fd& output = childs_[STDOUT_FILENO]) {
      childs_[STDERR_FILENO] = copy_above_standard_streams(output.get());
    } else {
      childs_[STDERR_FILENO] = copy_above_standard_streams(STDOUT_FILENO);
    }
  }

  pid_t start(const std::vector<std::string>& arguments) {
    if (arguments.empty()) {
      throw std::invalid_argument("gyre::io::process: needs the name of a program");
    }
    const std::vector<char*> argument_pointers = pointers_to(arguments);
    std::vector<char*> variables;
    if (options_.environment) variables = pointers_to(*options_.environment);
    file_actions actions;
    for (int number = 0; number < standard_streams; ++number) {
      const unique_fd& end = childs_[static_cast<std::size_t>(number)];
      if (end) actions.duplicate(end.get(), number);
    }
    if (!options_.directory.empty()) actions.change_directory(options_.directory);
    actions.close_others();
    spawn_attributes attributes;
    switch (options_.group.kind_) {
      case process_group::kind::inherit: break;
      case process_group::kind::own: attributes.set_group(0); break;
      case process_group::kind::own_session: attributes.make_session(); break;
      case process_group::kind::of: attributes.set_group(options_.group.id_); break;
    }
    keep_ended_children();
    pid_t id = -1;
    const int error =
        ::posix_spawnp(&id, argument_pointers[0], actions.get(), attributes.get(),
                       argument_pointers.data(), options_.environment ? variables.data() : environ);
    if (error != 0) {
      const std::string text =
          "gyre::io::process: start " + arguments[0] + hint_of(error, arguments[0]);
      gyre::detail::throw_system_error(error, text.c_str());
    }
    return id;
  }

  stream take(int number) noexcept { return std::move(ours_[static_cast<std::size_t>(number)]); }
  event_loop& loop() const noexcept { return loop_; }

 private:
  /// posix_spawn() does not tell which of its steps has failed.
  std::string hint_of(int error, const std::string& program) const {
    const std::string& directory = options_.directory;
    if (!directory.empty() && ::access((directory + "/.").c_str(), X_OK) != 0 && errno == error) {
      return " (the directory " + directory + ")";
    }
    if (error != ENOENT || !program.contains('/')) return "";
    const bool is_relative = !program.starts_with('/') && !directory.empty();
    const std::string path = is_relative ? directory + '/' + program : program;
    return ::access(path.c_str(), F_OK) == 0 ? " (the interpreter or loader that it names)" : "";
  }

  void connect(stdio setting, int number) {
    const auto index = static_cast<std::size_t>(number);
    const bool reads = number == STDIN_FILENO;
    switch (setting.kind_) {
      case stdio::kind::inherit:
      case stdio::kind::with_output: break;
      case stdio::kind::descriptor:
        childs_[index] = copy_above_standard_streams(setting.descriptor_);
        break;
      case stdio::kind::null: {
        const unique_fd null =
            opened(::open("/dev/null", (reads ? O_RDONLY : O_WRONLY) | O_CLOEXEC), "/dev/null");
        childs_[index] = copy_above_standard_streams(null.get());
        break;
      }
      case stdio::kind::pipe: {
        std::array<int, 2> ends{};
        if (::pipe2(ends.data(), O_CLOEXEC) != 0) gyre::detail::throw_errno("pipe2");
        unique_fd read_end(ends[0]);
        unique_fd write_end(ends[1]);
        childs_[index] = copy_above_standard_streams(reads ? read_end.get() : write_end.get());
        ours_[index] = stream(loop_, std::move(reads ? write_end : read_end));
        break;
      }
    }
  }

  event_loop& loop_;
  const process_options& options_;
  std::array<unique_fd, standard_streams> childs_;
  std::array<stream, standard_streams> ours_;
};

process::process(event_loop& loop, const std::vector<std::string>& arguments,
                 const process_options& options) {
  starter starts(loop, options);
  const pid_t id = starts.start(arguments);
  try {
    child_ = std::make_unique<detail::child_process>(loop, id, options.group.is_own());
  } catch (const std::bad_alloc&) {
    detail::kill_and_reap(id);
    throw;
  }
  input_ = starts.take(STDIN_FILENO);
  output_ = starts.take(STDOUT_FILENO);
  error_ = starts.take(STDERR_FILENO);
}

detail::child_process& process::child() const {
  if (child_ == nullptr) {
    throw std::logic_error("gyre::io::process: has no child after release(), or once moved from");
  }
  return *child_;
}

unique_fd process::release() noexcept {
  if (child_ == nullptr) return unique_fd();
  unique_fd pidfd = child_->release();
  child_.reset();
  return pidfd;
}

}  // namespace gyre::io
