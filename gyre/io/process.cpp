// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/process.hpp>

#include <gyre/base/error.hpp>
#include <gyre/io/detail/system_files.hpp>
#include <gyre/io/detail/system_processes.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <new>
#include <stdexcept>
#include <utility>

namespace gyre::io {
namespace {

using detail::system::standard_streams;

/// The array of pointers that exec() takes. Throws std::invalid_argument for a text with a null
/// character, which would end it.
std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) {
    if (text.find('\0') != std::string::npos) {
      throw std::invalid_argument(
          "gyre::io::process: an argument, or a variable, has a null character");
    }
    pointers.push_back(const_cast<char*>(text.c_str()));  // NOLINT: exec() does not change it
  }
  pointers.push_back(nullptr);
  return pointers;
}

/// Copies a descriptor to a number that no standard stream of the child replaces.
unique_fd copy_above_standard_streams(int descriptor) {
  return detail::system::value_or_throw(detail::system::duplicate(descriptor, standard_streams),
                                        "gyre::io::process: a descriptor for the child");
}

}  // namespace

/// The preparation of a child: both ends of its standard streams.
class process::starter {
 public:
  starter(event_loop& loop, const process_options& options) : loop_(loop), options_(options) {
    using kind = stdio::kind;
    if (options.input.kind_ == kind::with_output || options.output.kind_ == kind::with_output) {
      throw std::invalid_argument("gyre::io::stdio: with_output() is for the error output only");
    }
    prepare(options.input, STDIN_FILENO);
    prepare(options.output, STDOUT_FILENO);
    if (options.error.kind_ != kind::with_output) {
      prepare(options.error, STDERR_FILENO);
    } else if (const unique_fd& output = child_ends_[STDOUT_FILENO]) {
      child_ends_[STDERR_FILENO] = copy_above_standard_streams(output.get());
    } else {
      child_ends_[STDERR_FILENO] = copy_above_standard_streams(STDOUT_FILENO);
    }
  }

  pid_t start(const std::vector<std::string>& arguments) {
    if (arguments.empty()) {
      throw std::invalid_argument("gyre::io::process: needs the name of a program");
    }
    const std::vector<char*> argument_pointers = pointers_to(arguments);
    if (options_.directory.contains('\0')) {
      throw std::invalid_argument("gyre::io::process: the directory has a null character");
    }
    detail::system::spawn_plan plan{.arguments = argument_pointers.data(),
                                    .directory = options_.directory.c_str()};
    std::vector<char*> variables;
    if (options_.environment) {
      variables = pointers_to(*options_.environment);
      plan.environment = variables.data();
    }
    for (std::size_t number = 0; number < child_ends_.size(); ++number) {
      plan.streams[number] = child_ends_[number].get();
    }
    switch (options_.group.kind_) {
      case process_group::kind::inherit: break;
      case process_group::kind::own: plan.group = 0; break;
      case process_group::kind::own_session: plan.makes_session = true; break;
      case process_group::kind::of: plan.group = existing_group(); break;
    }
    const auto id = detail::system::spawn(plan);
    if (id) return *id;
    const std::string text =
        "gyre::io::process: start " + arguments[0] + hint_of(id.error(), arguments[0]);
    gyre::detail::throw_system_error(id.error(), text.c_str());
  }

  stream take(int number) noexcept {
    return std::move(own_ends_[static_cast<std::size_t>(number)]);
  }
  event_loop& loop() const noexcept { return loop_; }

 private:
  /// Returns the id that process_group::of() was given. Zero would make a new group, which
  /// neither kill_group() nor the destructor would kill.
  pid_t existing_group() const {
    const pid_t id = options_.group.id_;
    if (id > 0) return id;
    const std::string text =
        "gyre::io::process: join process_group::of(" + std::to_string(id) + ")";
    gyre::detail::throw_system_error(EINVAL, text.c_str());
  }

  /// Returns the likely cause of an error: posix_spawn(3) does not report which of its steps has
  /// failed.
  std::string hint_of(int error, const std::string& program) const {
    const std::string& directory = options_.directory;
    if (!directory.empty() &&
        detail::system::check_access((directory + "/.").c_str(), X_OK) == error) {
      return " (the directory " + directory + ")";
    }
    if (error != ENOENT || !program.contains('/')) return "";
    const bool is_relative = !program.starts_with('/') && !directory.empty();
    const std::string path = is_relative ? directory + '/' + program : program;
    return detail::system::check_access(path.c_str(), F_OK) == 0
               ? " (the interpreter or loader that it names)"
               : "";
  }

  void prepare(stdio setting, int number) {
    const auto index = static_cast<std::size_t>(number);
    const bool is_input = number == STDIN_FILENO;
    switch (setting.kind_) {
      case stdio::kind::inherit:
      case stdio::kind::with_output: break;
      case stdio::kind::descriptor:
        child_ends_[index] = copy_above_standard_streams(setting.descriptor_);
        break;
      case stdio::kind::null: {
        const unique_fd null_device = detail::system::value_or_throw(
            detail::system::open("/dev/null", is_input ? O_RDONLY : O_WRONLY), "/dev/null");
        child_ends_[index] = copy_above_standard_streams(null_device.get());
        break;
      }
      case stdio::kind::pipe: {
        auto [read_end, write_end] =
            detail::system::value_or_throw(detail::system::make_pipe(0), "pipe2");
        child_ends_[index] =
            copy_above_standard_streams(is_input ? read_end.get() : write_end.get());
        own_ends_[index] = stream(loop_, std::move(is_input ? write_end : read_end));
        break;
      }
    }
  }

  event_loop& loop_;
  const process_options& options_;
  std::array<unique_fd, standard_streams> child_ends_;
  std::array<stream, standard_streams> own_ends_;
};

process::process(event_loop& loop, const std::vector<std::string>& arguments,
                 const process_options& options) {
  starter preparation(loop, options);
  const pid_t id = preparation.start(arguments);
  try {
    child_ = std::make_unique<detail::child_process>(loop, id, options.group.is_own());
  } catch (const std::bad_alloc&) {
    detail::kill_and_reap(id);
    throw;
  }
  input_ = preparation.take(STDIN_FILENO);
  output_ = preparation.take(STDOUT_FILENO);
  error_ = preparation.take(STDERR_FILENO);
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
