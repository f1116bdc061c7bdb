// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/file_operation.hpp>

#include <gyre/io/backend.hpp>
#include <gyre/io/file.hpp>
#include <gyre/task/detail/transfer.hpp>

#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>

namespace gyre::io {
namespace {

std::int64_t call(const file_command& command) noexcept {
  using enum file_call_kind;
  switch (command.kind) {
    case open: return ::open(static_cast<const char*>(command.memory), command.flags, command.mode);
    case read:
      return ::pread(command.fd, command.memory, command.size,
                     static_cast<::off_t>(command.offset));
    case write:
      return ::pwrite(command.fd, command.memory, command.size,
                      static_cast<::off_t>(command.offset));
    case status:
      return ::statx(command.fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS,
                     static_cast<struct ::statx*>(command.memory));
    case sync: return ::fsync(command.fd);
    case sync_data: return ::fdatasync(command.fd);
    case truncate: return ::ftruncate(command.fd, static_cast<::off_t>(command.offset));
    case close: return ::close(command.fd);
  }
  std::unreachable();
}

}  // namespace

result perform(const file_command& command) noexcept {
  for (;;) {
    const result outcome = result::of_call(call(command));
    if (outcome.error_number() != EINTR || command.kind == file_call_kind::close) return outcome;
  }
}

namespace detail {
namespace {

::timespec time_of(const struct ::statx_timestamp& stamp) noexcept {
  return {.tv_sec = stamp.tv_sec, .tv_nsec = stamp.tv_nsec};
}

}  // namespace

struct ::stat stat_of(const struct ::statx& from) noexcept {
  struct ::stat to{};
  to.st_dev = ::makedev(from.stx_dev_major, from.stx_dev_minor);
  to.st_ino = from.stx_ino;
  to.st_mode = from.stx_mode;
  to.st_nlink = from.stx_nlink;
  to.st_uid = from.stx_uid;
  to.st_gid = from.stx_gid;
  to.st_rdev = ::makedev(from.stx_rdev_major, from.stx_rdev_minor);
  to.st_size = static_cast<::off_t>(from.stx_size);
  to.st_blksize = static_cast<::blksize_t>(from.stx_blksize);
  to.st_blocks = static_cast<::blkcnt_t>(from.stx_blocks);
  to.st_atim = time_of(from.stx_atime);
  to.st_mtim = time_of(from.stx_mtime);
  to.st_ctim = time_of(from.stx_ctime);
  return to;
}

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

std::uint8_t direct_alignment_shift(int fd) noexcept {
  std::uint32_t alignment = 0;
#if defined(STATX_DIOALIGN)  // since Linux 6.1
  struct ::statx status;
  if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_DIOALIGN, &status) == 0 &&
      (status.stx_mask & STATX_DIOALIGN) != 0) {
    alignment = std::max(status.stx_dio_mem_align, status.stx_dio_offset_align);
  }
#endif
  constexpr std::uint32_t page = 4096;
  return static_cast<std::uint8_t>(
      std::countr_zero(alignment > 1 && std::has_single_bit(alignment) ? alignment : page));
}

void throw_unaligned(const char* call, std::span<const std::byte> bytes, std::uint64_t offset,
                     std::size_t alignment) {
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const bool is_offset = offset % alignment != 0;
  const bool is_size = !is_offset && bytes.size() % alignment != 0;
  std::string text = call;
  text += is_offset ? ": the offset " + std::to_string(offset)
          : is_size ? ": the size " + std::to_string(bytes.size())
                    : ": the address of the memory, " + std::to_string(address) + ",";
  text += " is no multiple of " + std::to_string(alignment) +
          ", as a file opened with `direct` needs: see direct_alignment() and aligned_buffer";
  throw std::invalid_argument(text);
}

void throw_direct_read_whole() {
  throw std::logic_error(
      "read_whole: a file opened with `direct` needs aligned memory: call read_at() with an "
      "aligned_buffer");
}

std::string path_in_message(std::string path) {
  if (!path.contains('\0')) return path;
  for (std::size_t at = 0; (at = path.find('\0', at)) != path.npos; at += 2) {
    path.replace(at, 1, "\\0");
  }
  return path + " (a path cannot have a zero byte)";
}

void perform(file_steps& steps) noexcept {
  for (auto next = steps.begin(); next;) next = steps.advance(io::perform(*next));
}

bool suits_ring(int fd) noexcept {
  if (fd < 0 || ::lseek(fd, 0, SEEK_CUR) < 0) return false;
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_NONBLOCK) != 0) return false;
  // Event descriptors (eventfd, timerfd, epoll) let lseek(2) pass, but are files without a type.
  struct ::statx status;
  return ::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) == 0 &&
         (status.stx_mode & S_IFMT) != 0;
}

// Not a path that open(2) would take for a shorter one.
file_steps::next file_steps::open(const std::string& path, int flags, ::mode_t mode) noexcept {
  if (flags == 0 || path.contains('\0')) return fail(EINVAL);
  return file_command::open(path.c_str(), flags, mode);
}

file_steps::next open_steps::advance(result outcome) noexcept {
  if (!outcome) return fail(outcome.error_number());
  opened_.reset(outcome.fd());
  return {};
}

outcome_of<file> open_steps::outcome() noexcept {
  if (failed()) return error();
  return file(std::move(opened_), pool_, (flags_ & O_DIRECT) != 0);
}

std::string open_steps::path() const {
  if (flags_ == 0) return path_ + " (needs `read` or `write`; `truncate` needs `write`)";
  const bool cannot_be_direct = (flags_ & O_DIRECT) != 0 && failed_with(EINVAL);
  return cannot_be_direct ? path_ + " (its file system may not have O_DIRECT)" : path_;
}

file_steps::next read_steps::advance(result outcome) noexcept {
  if (!outcome) return fail(outcome.error_number());
  rest_ = rest_.subspan(outcome.count());
  offset_ += outcome.count();
  count_ += outcome.count();
  const bool is_end = outcome.count() == 0 || outcome.count() % alignment_ != 0;
  return !whole_ || is_end || rest_.empty() ? next() : read_rest();
}

file_steps::next write_steps::begin() noexcept {
  if (rest_.empty()) return {};
  return file_command::write(fd_, rest_, offset_);
}

file_steps::next write_steps::advance(result outcome) noexcept {
  if (!outcome) return fail(outcome.error_number());
  if (outcome.count() == 0) return fail(EIO);  // a device takes nothing, without an error
  rest_ = rest_.subspan(outcome.count());
  offset_ += outcome.count();
  return begin();
}

const char* write_steps::hint() const noexcept {
  if (!failed_with(EINVAL)) return "";
  const int flags = ::fcntl(fd_, F_GETFL);
  const bool is_direct_append = flags >= 0 && (flags & O_APPEND) != 0 && (flags & O_DIRECT) != 0;
  return is_direct_append ? " (`direct` appends only to a file whose size is a multiple of "
                            "direct_alignment())"
                          : "";
}

outcome_of<struct ::stat> status_steps::outcome() const noexcept {
  return value_or_error(stat_of(status_));
}

file_steps::next close_steps::begin() noexcept {
  if (!fd_) return fail(EBADF);
  return file_command::close(fd_.get());
}

// On Linux the descriptor is gone after every error.
file_steps::next close_steps::advance(result outcome) noexcept {
  const int error = outcome.error_number();
  if (error != ECANCELED) static_cast<void>(fd_.release());
  return error == EINTR ? next() : fail(error);
}

read_whole_steps::read_whole_steps(int fd, std::size_t limit) noexcept
    : fd_(fd), limit_(std::min(limit, buffer_options().max_size - 1)) {}

// The size is only a hint, so a file system need not be asked for its newest: files whose size the
// system does not know have the size zero, as in /proc, or that of a page, as in /sys.
file_steps::next read_whole_steps::begin() noexcept try {
  if (::lseek(fd_, 0, SEEK_CUR) < 0) return fail(errno);  // not a file
  struct ::statx status;
  if (::statx(fd_, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_SIZE, &status) < 0) {
    return fail(errno);
  }
  // One byte more, which tells that the file ends or is too large.
  all_ = buffer({.prepend = 0, .max_size = limit_ + 1});
  if (status.stx_size > limit_) {
    // So that a file that is too large is not read up to the limit.
    probes_limit_ = true;
    return file_command::read(fd_, free_room().first(1), limit_);
  }
  if (status.stx_size > 0) all_.reserve(static_cast<std::size_t>(status.stx_size) + 1);
  return read_more();
} catch (const std::bad_alloc&) {
  return fail(ENOMEM);
}

file_steps::next read_whole_steps::advance(result outcome) noexcept try {
  if (!outcome) return fail(outcome.error_number());
  if (std::exchange(probes_limit_, false)) return outcome.count() > 0 ? fail(EFBIG) : read_more();
  if (outcome.count() == 0) return {};
  all_.commit(outcome.count());
  return all_.size() > limit_ ? fail(EFBIG) : read_more();
} catch (const std::bad_alloc&) {
  return fail(ENOMEM);
}

file_steps::next read_whole_steps::read_more() {
  return file_command::read(fd_, free_room(), all_.size());
}

std::span<std::byte> read_whole_steps::free_room() {
  constexpr std::size_t least_read = std::size_t{16} << 10;
  const std::size_t room = all_.tail_room();
  return all_.prepare(room > 0 ? room : std::min(least_read, limit_ + 1 - all_.size()));
}

file_steps::next read_path_steps::advance(result outcome) noexcept {
  switch (stage_) {
    case stage::opening:
      if (!outcome) return fail(outcome.error_number());
      stage_ = stage::reading;
      closing_ = close_steps(unique_fd(outcome.fd()));
      reading_ = read_whole_steps(outcome.fd(), limit_);
      return read_or_close(reading_.begin());
    case stage::reading: return read_or_close(reading_.advance(outcome));
    case stage::closing: return closing_.advance(outcome);
  }
  std::unreachable();
}

file_steps::next read_path_steps::read_or_close(const next& reading) noexcept {
  if (reading) return reading;
  stage_ = stage::closing;
  return closing_.begin();
}

outcome_of<buffer> read_path_steps::outcome() noexcept {
  if (failed()) return error();
  return reading_.outcome();
}

// --- The awaiter ---

namespace {

// The loop that a coroutine of `executor`, which runs now, may use; or null.
event_loop* loop_of(executor& executor) noexcept {
  event_loop* const here = event_loop::current();
  if (&executor == here || &executor == &inline_executor()) return here;
  // A loop that does not run yet, or whose task runs another loop.
  auto* const loop = dynamic_cast<event_loop*>(&executor);
  return loop != nullptr && (here == nullptr || loop->in_loop_thread()) ? loop : nullptr;
}

}  // namespace

loop_files files_for(const file_operation_options& options, executor& executor) noexcept {
  if (options.pool != nullptr || !options.suits_ring) return {};
  event_loop* const loop = loop_of(executor);
  backend* const io = loop != nullptr ? loop->io() : nullptr;
  file_service* const files = io != nullptr ? io->files() : nullptr;
  if (files == nullptr || !files->can(options.kind)) return {};
  return {loop, files};
}

bool ring_operation::begin(std::coroutine_handle<> awaiting, inplace_stop_token stop) {
  waiting_ = awaiting;
  if (make_calls(steps_.begin())) return false;
  if (stop.stop_possible()) stop_callback_.emplace(stop, on_stop{this});
  return true;
}

// Returns whether all calls have been made; if not, one is under way.
bool ring_operation::make_calls(file_steps::next next) noexcept {
  while (next) {
    command = *next;
    const std::optional<result> outcome =
        stopping_ ? result::failure(ECANCELED) : service_.start(*this);
    if (!outcome) return false;
    next = next_after(*outcome);
  }
  return true;
}

file_steps::next ring_operation::next_after(result outcome) noexcept {
  const bool interrupted = outcome.error_number() == EINTR && command.kind != file_call_kind::close;
  return interrupted ? file_steps::next(command) : steps_.advance(outcome);
}

void ring_operation::on_completion(file_call& completed, result outcome) {
  auto& self = static_cast<ring_operation&>(completed);
  if (!self.make_calls(self.next_after(outcome))) return;
  self.disarm_stop();
  gyre::detail::resume(self.waiting_);
}

// Any thread.
void ring_operation::stop() noexcept try {
  stop_target_ = std::make_shared<ring_operation*>(this);
  loop_.post([target = stop_target_] {
    if (*target == nullptr) return;
    (*target)->stopping_ = true;
    (*target)->service_.request_cancel(**target);
  });
} catch (const std::bad_alloc&) {
  return;  // the operation runs to its end
}

void ring_operation::disarm_stop() noexcept {
  stop_callback_.reset();  // waits for a stop on another thread
  if (stop_target_ != nullptr) *stop_target_ = nullptr;
}

ring_operation::~ring_operation() {
  if (!is_linked()) return;
  disarm_stop();
  // The outcome may be a descriptor, which the steps own.
  if (const std::optional<result> outcome = service_.cancel(*this)) {
    static_cast<void>(steps_.advance(*outcome));
  }
}

}  // namespace detail
}  // namespace gyre::io
