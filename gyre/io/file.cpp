// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/file.hpp>

#include <gyre/io/detail/system_files.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <stdexcept>

namespace gyre::io {
namespace {

// Returns the flags of open(2); zero for options that contradict each other.
int flags_of(const open_options& options) noexcept {
  if ((!options.read && !options.write) || (options.truncate && !options.write)) return 0;
  int flags = O_CLOEXEC | (!options.write ? O_RDONLY : options.read ? O_RDWR : O_WRONLY);
  if (options.create) flags |= O_CREAT;
  if (options.create_new) flags |= O_CREAT | O_EXCL;
  if (options.truncate) flags |= O_TRUNC;
  if (options.append) flags |= O_APPEND;
  if (options.direct) flags |= O_DIRECT;
  return flags;
}

// Returns the binary logarithm of file::direct_alignment().
std::uint8_t direct_alignment_shift(int fd) noexcept {
  std::uint32_t alignment = 0;
#if defined(STATX_DIOALIGN)  // since Linux 6.1
  const auto status = detail::system::status_of(fd, STATX_DIOALIGN, AT_STATX_DONT_SYNC);
  if (status && (status->stx_mask & STATX_DIOALIGN) != 0) {
    alignment = std::max(status->stx_dio_mem_align, status->stx_dio_offset_align);
  }
#endif
  constexpr std::uint32_t page = 4096;
  return static_cast<std::uint8_t>(
      std::countr_zero(alignment > 1 && std::has_single_bit(alignment) ? alignment : page));
}

// Returns the size of a file as a hint. A network file system is not asked for the current size.
// Files whose size the system does not know have the size zero, as in /proc, or that of a page, as
// in /sys.
result size_hint(int fd) noexcept {
  const result position = detail::system::seek(fd, 0, SEEK_CUR);
  if (!position) return position;  // the descriptor is not that of a file
  const auto status = detail::system::status_of(fd, STATX_SIZE, AT_STATX_DONT_SYNC);
  return status ? result::of(status->stx_size) : result::failure(status.error());
}

std::span<std::byte> prepare_read(buffer& content) {
  constexpr std::size_t min_read = std::size_t{16} << 10;
  const std::size_t room = content.tail_room();
  return content.prepare(room > 0 ? room : std::min(min_read, content.max_size() - content.size()));
}

}  // namespace

detail::file_routine<buffer> detail::read_content(routine_memory&,
                                                  const file_arguments& arguments) {
  unique_fd file;
  if (arguments.fd == AT_FDCWD) {
    const result outcome =
        co_await file_command::open(arguments.path.c_str(), O_RDONLY | O_CLOEXEC, 0);
    if (!outcome) co_return failure_of(outcome);
    file.reset(outcome.fd());
  }
  const int fd = file ? file.get() : arguments.fd;
  const std::size_t limit = std::min(arguments.limit, buffer_options().max_size - 1);
  // The buffer has room for one byte more than the limit, which shows that the file is too large.
  buffer content({.prepend = 0, .max_size = limit + 1});
  result outcome = size_hint(fd);
  if (outcome && outcome.count() > limit) {
    // One byte beyond the limit is read first, so that a file that is too large is not read up to
    // the limit.
    outcome = co_await file_command::read(fd, content.prepare(1), limit);
    if (outcome && outcome.count() > 0) outcome = result::failure(EFBIG);
  } else if (outcome && outcome.count() > 0) {
    content.reserve(outcome.count() + 1);
  }
  while (outcome) {
    outcome = co_await file_command::read(fd, prepare_read(content), content.size());
    if (!outcome || outcome.count() == 0) break;
    content.commit(outcome.count());
    if (content.size() > limit) outcome = result::failure(EFBIG);
  }
  if (file) {
    const result result = co_await file_command::close(file.get());
    if (result.error_number() != ECANCELED) static_cast<void>(file.release());
  }
  if (!outcome) co_return failure_of(outcome);
  co_return content;
}

file::file(unique_fd fd, executor* pool, bool is_direct) noexcept
    : fd_(std::move(fd)),
      suits_ring_(pool == nullptr && detail::suits_ring(this->fd())),
      alignment_shift_(is_direct ? direct_alignment_shift(this->fd()) : 0),
      pool_(pool) {}

void file::throw_unaligned(const char* function_name, std::span<const std::byte> bytes,
                           std::uint64_t offset) const {
  const std::size_t alignment = direct_alignment();
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const bool is_offset = offset % alignment != 0;
  const bool is_size = !is_offset && bytes.size() % alignment != 0;
  std::string text = function_name;
  text += is_offset ? ": the offset " + std::to_string(offset)
          : is_size ? ": the size " + std::to_string(bytes.size())
                    : ": the address of the memory, " + std::to_string(address) + ",";
  text += " is no multiple of " + std::to_string(alignment) +
          ", as a file opened with `direct` needs: see direct_alignment() and aligned_buffer";
  throw std::invalid_argument(text);
}

void file::throw_direct_read_whole() {
  throw std::logic_error(
      "read_whole: a file opened with `direct` needs aligned memory: call read_at() with an "
      "aligned_buffer");
}

file::open_steps::open_steps(executor* pool, std::string path, const open_options& options) noexcept
    : pool_(pool), path_(std::move(path)), flags_(flags_of(options)), mode_(options.mode) {}

// A path with a zero byte would be taken for a shorter one.
detail::file_steps::next file::open_steps::begin() noexcept {
  if (flags_ == 0 || path_.contains('\0')) return fail(EINVAL);
  return file_command::open(path_.c_str(), flags_, mode_);
}

detail::file_steps::next file::open_steps::advance(result outcome) noexcept {
  if (!outcome) return fail(outcome.error_number());
  own_fd_.reset(outcome.fd());
  return {};
}

detail::outcome_of<file> file::open_steps::outcome() noexcept {
  if (has_failed()) return failure();
  return file(std::move(own_fd_), pool_, (flags_ & O_DIRECT) != 0);
}

std::string file::open_steps::hint() const {
  const bool cannot_be_direct = (flags_ & O_DIRECT) != 0 && has_failed_with(EINVAL);
  return ' ' + detail::path_in_message(path_) +
         (flags_ == 0        ? " (needs `read` or `write`; `truncate` needs `write`)"
          : cannot_be_direct ? " (its file system may not have O_DIRECT)"
                             : "");
}

}  // namespace gyre::io
