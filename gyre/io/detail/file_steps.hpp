// SPDX-License-Identifier: Apache-2.0
// file_steps: an operation on a file as a sequence of system calls, each as data, so that a thread
// of a pool can make them as well as the kernel for a loop.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/file_service.hpp>
#include <gyre/task/executor.hpp>

#include <sys/stat.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

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
  bool failed() const noexcept { return error_ != 0; }
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

/// Whether a ring does with a descriptor what system calls do: with pipes and sockets, which have
/// no offsets, it would read on instead of failing; from some non-blocking files it reads nothing.
bool suits_ring(int fd) noexcept;

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
  next begin() noexcept override;
  next advance(result outcome) noexcept override;
  outcome_of<file> outcome() noexcept;
  const std::string& path() const noexcept { return path_; }

 private:
  executor* pool_;
  std::string path_;
  int flags_;
  ::mode_t mode_;
  unique_fd opened_;
};

/// Reads once, or `whole`: until the memory is full or the file ends.
class read_steps final : public file_steps {
 public:
  using value_type = std::size_t;
  read_steps(int fd, std::span<std::byte> bytes, std::uint64_t offset, bool whole) noexcept
      : fd_(fd), rest_(bytes), offset_(offset), whole_(whole) {}
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
};

class write_steps final : public file_steps {
 public:
  using value_type = void;
  write_steps(int fd, std::span<const std::byte> bytes, std::uint64_t offset) noexcept
      : fd_(fd), rest_(bytes), offset_(offset) {}
  next begin() noexcept override;
  next advance(result outcome) noexcept override;

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

  int fd_;
  std::size_t limit_;
  buffer all_;
};

/// Opens, reads and closes the file at a path.
class read_path_steps final : public file_steps {
 public:
  using value_type = buffer;
  read_path_steps(std::string path, std::size_t limit) noexcept
      : path_(std::move(path)), reading_(-1, limit), limit_(limit) {}
  next begin() noexcept override;
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

}  // namespace gyre::io::detail
