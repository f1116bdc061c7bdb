// SPDX-License-Identifier: Apache-2.0
// file_steps: an operation on a file as a sequence of system calls, each as data.
// file_operation: its awaiter. The kernel makes the calls for the loop where the backend of the
// coroutine's loop can, else a thread of a pool does.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/detail/blocking_call.hpp>
#include <gyre/io/file_service.hpp>
#include <gyre/task/detail/cancelled.hpp>

#include <fcntl.h>

#include <cerrno>
#include <expected>
#include <memory>
#include <string>
#include <system_error>
#include <variant>

namespace gyre::io {
class file;
}  // namespace gyre::io

namespace gyre::io::detail {

template <class T>
using outcome_of = std::expected<T, std::error_code>;

/// Movable until it begins; when it has ended, it has an outcome() with a `value_type`.
class file_steps {
 public:
  /// The call to be made; nothing: all were.
  using next = std::optional<file_command>;

  virtual next begin() noexcept = 0;
  /// `outcome`: that of the call before; ECANCELED if it was not made.
  virtual next advance(result outcome) noexcept = 0;
  /// For operations without a value.
  outcome_of<void> outcome() const noexcept {
    if (failed()) return error();
    return {};
  }

 protected:
  ~file_steps() = default;

  next fail(int error) noexcept {
    error_ = error;
    return {};
  }
  /// Fails with EINVAL if `flags` are zero.
  next open(const std::string& path, int flags, ::mode_t mode) noexcept;
  bool failed() const noexcept { return error_ != 0; }
  bool failed_with(int error) const noexcept { return error_ == error; }
  std::unexpected<std::error_code> error() const noexcept {
    return std::unexpected(std::error_code(error_, std::system_category()));
  }
  template <class T>
  outcome_of<T> value_or_error(T value) const noexcept {
    if (failed()) return error();
    return value;
  }

 private:
  int error_ = 0;
};

/// Whether a ring does with a descriptor what system calls do: with pipes, sockets and event
/// descriptors, which have no offsets, it would read on instead of failing; from some non-blocking
/// files it reads nothing.
bool suits_ring(int fd) noexcept;

struct ::stat stat_of(const struct ::statx& from) noexcept;

/// One call without a value, nor memory, which would not move with it.
class single_call final : public file_steps {
 public:
  using value_type = void;
  explicit single_call(const file_command& command) noexcept : command_(command) {}
  next begin() noexcept override { return command_; }
  next advance(result outcome) noexcept override { return fail(outcome.error_number()); }

 private:
  file_command command_;
};

class open_steps final : public file_steps {
 public:
  using value_type = file;
  /// `flags`: zero for options that contradict each other.
  open_steps(executor* pool, std::string path, int flags, ::mode_t mode) noexcept
      : pool_(pool), path_(std::move(path)), flags_(flags), mode_(mode) {}
  next begin() noexcept override { return open(path_, flags_, mode_); }
  next advance(result outcome) noexcept override;
  outcome_of<file> outcome() noexcept;
  std::string path() const;

 private:
  executor* pool_;
  std::string path_;
  int flags_;
  ::mode_t mode_;
  unique_fd opened_;
};

/// Reads once, or `whole`: until the memory is full or the file ends. With `alignment`, a call that
/// gives no multiple of it has found the end, from where none could go on.
class read_steps final : public file_steps {
 public:
  using value_type = std::size_t;
  read_steps(int fd, std::span<std::byte> bytes, std::uint64_t offset, bool whole,
             std::size_t alignment = 1) noexcept
      : fd_(fd),
        rest_(bytes),
        offset_(offset),
        whole_(whole),
        alignment_(static_cast<std::uint32_t>(alignment)) {}
  next begin() noexcept override { return whole_ && rest_.empty() ? next() : read_rest(); }
  next advance(result outcome) noexcept override;
  outcome_of<std::size_t> outcome() const noexcept { return value_or_error(count_); }

 private:
  next read_rest() const noexcept { return file_command::read(fd_, rest_, offset_); }

  int fd_;
  std::span<std::byte> rest_;
  std::uint64_t offset_;
  std::size_t count_ = 0;
  bool whole_;
  std::uint32_t alignment_;
};

class write_steps final : public file_steps {
 public:
  using value_type = void;
  write_steps(int fd, std::span<const std::byte> bytes, std::uint64_t offset) noexcept
      : fd_(fd), rest_(bytes), offset_(offset) {}
  next begin() noexcept override;
  next advance(result outcome) noexcept override;
  /// The likely cause of the error; may be empty.
  const char* hint() const noexcept;

 private:
  int fd_;
  std::span<const std::byte> rest_;
  std::uint64_t offset_;
};

// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): none is destroyed as another
class status_steps : public file_steps {
 public:
  using value_type = struct ::stat;
  explicit status_steps(int fd) noexcept : fd_(fd) {}
  next begin() noexcept override { return file_command::status(fd_, status_); }
  next advance(result outcome) noexcept override { return fail(outcome.error_number()); }
  outcome_of<struct ::stat> outcome() const noexcept;

 protected:
  std::uint64_t size() const noexcept { return status_.stx_size; }

 private:
  int fd_;
  struct ::statx status_{};
};

class size_steps final : public status_steps {
 public:
  using value_type = std::uint64_t;
  using status_steps::status_steps;
  outcome_of<std::uint64_t> outcome() const noexcept { return value_or_error(size()); }
};

/// Closes the descriptor that it owns, at the latest when it is destroyed.
class close_steps final : public file_steps {
 public:
  using value_type = void;
  explicit close_steps(unique_fd fd = unique_fd()) noexcept : fd_(std::move(fd)) {}
  next begin() noexcept override;
  next advance(result outcome) noexcept override;

 private:
  unique_fd fd_;
};

class read_whole_steps final : public file_steps {
 public:
  using value_type = buffer;
  read_whole_steps(int fd, std::size_t limit) noexcept;
  next begin() noexcept override;
  next advance(result outcome) noexcept override;
  outcome_of<buffer> outcome() noexcept { return value_or_error(std::move(all_)); }

 private:
  next read_more();
  std::span<std::byte> free_room();

  int fd_;
  bool probes_limit_ = false;  // the present call reads the byte behind the limit
  std::size_t limit_;
  buffer all_;
};

/// Opens, reads and closes the file at a path.
class read_path_steps final : public file_steps {
 public:
  using value_type = buffer;
  read_path_steps(std::string path, std::size_t limit) noexcept
      : path_(std::move(path)), reading_(-1, limit), limit_(limit) {}
  next begin() noexcept override { return open(path_, O_RDONLY | O_CLOEXEC, 0); }
  next advance(result outcome) noexcept override;
  outcome_of<buffer> outcome() noexcept;
  const std::string& path() const noexcept { return path_; }

 private:
  enum class stage : std::uint8_t { opening, reading, closing };
  next read_or_close(const next& reading) noexcept;

  std::string path_;
  read_whole_steps reading_;
  std::size_t limit_;
  close_steps closing_;
  stage stage_ = stage::opening;
};

/// An operation that is carried out for a loop, on its thread. A stop, which comes from any, posts
/// a call to the loop, which finds this, or that it is gone.
class ring_operation final : file_call {
 public:
  ring_operation(event_loop& loop, file_service& service, file_steps& steps) noexcept
      : file_call(&on_completion), loop_(loop), service_(service), steps_(steps) {}
  /// Waits for the end of a call that cannot be cancelled, if the coroutine is destroyed while it
  /// waits.
  ~ring_operation();
  /// False: there is nothing to wait for.
  bool begin(std::coroutine_handle<> awaiting, inplace_stop_token stop);

 private:
  struct on_stop {
    ring_operation* self;
    void operator()() const noexcept { self->stop(); }
  };

  static void on_completion(file_call& completed, result outcome);
  bool make_calls(file_steps::next next) noexcept;
  file_steps::next next_after(result outcome) noexcept;
  void stop() noexcept;
  void disarm_stop() noexcept;

  event_loop& loop_;
  file_service& service_;
  file_steps& steps_;
  std::coroutine_handle<> waiting_;
  bool stopping_ = false;
  // Shared with the call that a stop has posted; null: the operation is over.
  std::shared_ptr<ring_operation*> stop_target_;
  std::optional<inplace_stop_callback<on_stop>> stop_callback_;
};

/// A path for a message. A zero byte, which no path can have and which would end the message,
/// becomes "\\0" and is named as the fault.
std::string path_in_message(std::string path);

/// How a file operation is carried out.
struct file_operation_options {
  /// Null: the kernel, if it can, else the default pool.
  executor* pool = nullptr;
  /// The calls that the kernel must be able to make.
  file_call_kind kind = file_call_kind::read;
  bool suits_ring = true;
  /// Whether it ends when the coroutine is asked to stop.
  bool stoppable = true;
};

/// A loop whose kernel carries operations out; null: there is none.
struct loop_files {
  event_loop* loop = nullptr;
  file_service* files = nullptr;
};
/// For a coroutine of `executor`, which runs now.
loop_files files_for(const file_operation_options& options, executor& executor) noexcept;

/// Awaited, carries `Steps` out, and gives their outcome.
template <class Steps>
class [[nodiscard]] file_operation {
 public:
  using value_type = typename Steps::value_type;
  using expected = outcome_of<value_type>;
  /// `name`: of the call, for the exception, which also names the path() of steps that have one.
  file_operation(const char* name, file_operation_options options, Steps steps)
      : name_(name), options_(options), steps_(std::move(steps)) {}
  // Before it is awaited.
  file_operation(file_operation&& other) noexcept
      : name_(other.name_), options_(other.options_), steps_(std::move(other.steps_)) {}
  file_operation& operator=(const file_operation&) = delete;

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting) {
    const task_context& context = gyre::detail::context_of(awaiting);
    context_ = &context;
    if (const auto [loop, files] = files_for(options_, *context.where); files != nullptr) {
      const inplace_stop_token stop = options_.stoppable ? context.stop : inplace_stop_token();
      if (stop.stop_requested()) return gyre::detail::gives_way(context, awaiting);
      return under_way_.template emplace<ring_operation>(*loop, *files, steps_)
          .begin(awaiting, stop);
    }
    return under_way_.template emplace<blocking_call>(options_.pool, steps_, options_.stoppable)
               .begin(awaiting, context) ||
           gyre::detail::gives_way(context, awaiting);
  }
  value_type await_resume() {
    expected ended = outcome();
    if (!ended) [[unlikely]] {
      std::string operation = name_;
      if constexpr (requires { steps_.path(); }) operation += ' ' + path_in_message(steps_.path());
      if constexpr (requires { steps_.hint(); }) operation += steps_.hint();
      gyre::detail::throw_failure(ended.error(), context_, operation.c_str());
    }
    if constexpr (!std::is_void_v<value_type>) return *std::move(ended);
  }
  expected result() {
    expected ended = outcome();
    if (!ended) return std::unexpected(gyre::detail::failure_value(ended.error(), context_));
    return ended;
  }

 private:
  // With every error as a value.
  expected outcome() noexcept {
    auto* const call = std::get_if<blocking_call>(&under_way_);
    if (under_way_.index() == 0 || (call != nullptr && !call->end())) {
      return std::unexpected(std::make_error_code(std::errc::operation_canceled));
    }
    return steps_.outcome();
  }

  const char* name_;
  const task_context* context_ = nullptr;  // once it is awaited
  file_operation_options options_;
  Steps steps_;
  std::variant<std::monostate, ring_operation, blocking_call> under_way_;  // uses the others
};

}  // namespace gyre::io::detail
