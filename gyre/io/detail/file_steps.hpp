// SPDX-License-Identifier: Apache-2.0
// file_steps: an operation on a file as a sequence of system calls, each as data; and the
// operations of a single kind of call.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/io/detail/blocking_call.hpp>
#include <gyre/io/file_service.hpp>

#include <expected>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

namespace gyre::io::detail {

template <class T>
using outcome_of = std::expected<T, std::error_code>;

/// An outcome with errno's number `error`.
inline std::unexpected<std::error_code> failure_of(int error) noexcept {
  return std::unexpected(std::error_code(error, std::system_category()));
}
inline std::unexpected<std::error_code> failure_of(result failed_call) noexcept {
  return failure_of(failed_call.error_number());
}

/// The steps of one operation. They may be moved until begin(), and have an outcome() of their
/// `value_type` at the end.
class file_steps : public blocking_work {
 public:
  /// The call to make next; std::nullopt after the last one.
  using next = std::optional<file_command>;

  virtual next begin() noexcept = 0;
  /// Continues after a call. `outcome`: the outcome of that call; ECANCELED if it was not made.
  virtual next advance(result outcome) noexcept = 0;
  /// Makes all calls on the calling thread.
  void run() noexcept final;
  /// Returns the outcome of an operation without a value.
  outcome_of<void> outcome() const noexcept {
    if (has_failed()) return failure();
    return {};
  }

 protected:
  ~file_steps() = default;

  next fail(int error) noexcept {
    error_ = error;
    return {};
  }
  bool has_failed() const noexcept { return error_ != 0; }
  bool has_failed_with(int error) const noexcept { return error_ == error; }
  std::unexpected<std::error_code> failure() const noexcept { return failure_of(error_); }
  template <class T>
  outcome_of<T> value_or_error(T value) const noexcept {
    if (has_failed()) return failure();
    return value;
  }

 private:
  int error_ = 0;
};

/// Returns a path for a message. A zero byte, which no path can have and which would end the
/// message, becomes "\\0" and is reported as the error.
std::string path_in_message(std::string path);

/// Returns whether a ring treats the descriptor as system calls do. From pipes, sockets and event
/// descriptors, which have no offsets, a ring would read instead of failing; from some non-blocking
/// files it reads nothing.
bool suits_ring(int fd) noexcept;

struct ::stat stat_of(const struct ::statx& status) noexcept;

/// An operation of one system call that returns no value. The command must not point into memory
/// that the caller moves with this object, because the pointer would dangle.
class single_call final : public file_steps {
 public:
  using value_type = void;
  explicit single_call(const file_command& command) noexcept : command_(command) {}
  next begin() noexcept override { return command_; }
  next advance(result outcome) noexcept override { return fail(outcome.error_number()); }

 private:
  file_command command_;
};

/// Reads once, or, if `transfers_all`, until the memory is full or the file ends. With `alignment`,
/// a read of a count that is not a multiple of it has reached the end, because no read could
/// continue at that offset.
class read_steps final : public file_steps {
 public:
  using value_type = std::size_t;
  read_steps(int fd, std::span<std::byte> bytes, std::uint64_t offset, bool transfers_all,
             std::size_t alignment = 1) noexcept
      : fd_(fd),
        rest_(bytes),
        offset_(offset),
        transfers_all_(transfers_all),
        alignment_(static_cast<std::uint32_t>(alignment)) {}
  next begin() noexcept override { return transfers_all_ && rest_.empty() ? next() : read_rest(); }
  next advance(result outcome) noexcept override;
  outcome_of<std::size_t> outcome() const noexcept { return value_or_error(count_); }

 private:
  next read_rest() const noexcept { return file_command::read(fd_, rest_, offset_); }

  int fd_;
  std::span<std::byte> rest_;
  std::uint64_t offset_;
  std::size_t count_ = 0;
  bool transfers_all_;
  std::uint32_t alignment_;
};

class write_steps final : public file_steps {
 public:
  using value_type = void;
  write_steps(int fd, std::span<const std::byte> bytes, std::uint64_t offset) noexcept
      : fd_(fd), rest_(bytes), offset_(offset) {}
  next begin() noexcept override;
  next advance(result outcome) noexcept override;
  /// Returns a text for the likely cause of the error; may be empty.
  const char* hint() const noexcept;

 private:
  int fd_;
  std::span<const std::byte> rest_;
  std::uint64_t offset_;
};

// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): no object is destroyed as another
class status_steps : public file_steps {
 public:
  using value_type = struct ::stat;
  explicit status_steps(int fd) noexcept : fd_(fd) {}
  next begin() noexcept override { return file_command::status(fd_, status_); }
  next advance(result outcome) noexcept override { return fail(outcome.error_number()); }
  outcome_of<struct ::stat> outcome() const noexcept { return value_or_error(stat_of(status_)); }

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
  explicit close_steps(unique_fd fd) noexcept : fd_(std::move(fd)) {}
  next begin() noexcept override;
  next advance(result outcome) noexcept override;

 private:
  unique_fd fd_;
};

}  // namespace gyre::io::detail
