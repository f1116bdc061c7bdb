// SPDX-License-Identifier: Apache-2.0
#include <gyre/testing/system_call_faults.hpp>

#include <gyre/base/detail/short_lived_thread.hpp>

#include <liburing.h>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace gyre::testing {
namespace {

#define GYRE_TESTING_CALLS(X)                                                                      \
  X(accept4), X(bind), X(close), X(connect), X(dup3), X(epoll_create1), X(epoll_ctl),              \
      X(epoll_pwait2), X(epoll_wait), X(eventfd), X(fchmod), X(fcntl), X(fdatasync), X(fstat),     \
      X(fsync), X(ftruncate), X(getdents64), X(getpeername), X(getrandom), X(getsockname),         \
      X(getsockopt), X(inotify_add_watch), X(inotify_init1), X(io_uring_get_events),               \
      X(io_uring_get_probe_ring), X(io_uring_queue_init), X(io_uring_queue_init_params),           \
      X(io_uring_register), X(io_uring_register_buf_ring), X(io_uring_register_sync_cancel),       \
      X(io_uring_submit), X(io_uring_submit_and_get_events), X(io_uring_submit_and_wait),          \
      X(io_uring_submit_and_wait_timeout), X(io_uring_wait_cqe_timeout), X(listen), X(lseek),      \
      X(madvise), X(mkdirat), X(mmap), X(open), X(openat), X(pipe2), X(poll), X(pread), X(pwrite), \
      X(read), X(readv), X(recv), X(recvmmsg), X(recvmsg), X(renameat2), X(send), X(sendfile),     \
      X(sendmmsg), X(sendmsg), X(setsockopt), X(shutdown), X(signalfd), X(sockatmark), X(socket),  \
      X(socketpair), X(statx), X(syscall), X(timerfd_create), X(timerfd_settime), X(unlinkat),     \
      X(write), X(writev)

#define GYRE_TESTING_NUMBER(name) name##_call
enum call : int { GYRE_TESTING_CALLS(GYRE_TESTING_NUMBER), calls };

#define GYRE_TESTING_NAME(name) #name
constexpr std::array<std::string_view, calls> names{GYRE_TESTING_CALLS(GYRE_TESTING_NAME)};

struct armed {
  fault::plan plan;
  int error = 0;
  int hits = 0;
  bool active = false;
};
struct call_table {
  std::array<armed, calls> faults{};
  std::array<std::size_t, calls> call_counts{};
};
constinit thread_local call_table own_table{};
// The call_table of another thread, for which this thread makes calls while the other one waits.
constinit thread_local call_table* adopted_table = nullptr;

call_table& table() noexcept { return adopted_table != nullptr ? *adopted_table : own_table; }
armed& fault_of(int call_index) noexcept {
  return table().faults[static_cast<std::size_t>(call_index)];
}

constexpr gyre::detail::short_lived_thread_hooks share_the_table{
    .state_of_caller = []() noexcept -> void* { return &table(); },
    .adopt_state =
        [](void* of_caller) noexcept { adopted_table = static_cast<call_table*>(of_caller); }};
[[maybe_unused]] const bool shares_the_table = [] {
  // release: pairs with the acquire in short_lived_thread, which reads the hooks.
  gyre::detail::short_lived_thread_hooks_in_force.store(&share_the_table,
                                                        std::memory_order_release);
  return true;
}();

// Applies the fault armed for a call, if any: counts this call, and returns whether it must fail;
// then sets errno.
bool consume_fault(call call_index) noexcept {
  armed& fault = fault_of(call_index);
  if (!fault.active) return false;
  if (fault.plan.after > 0) {
    --fault.plan.after;
    return false;
  }
  if (fault.plan.times == 0) return false;
  if (fault.plan.times > 0) --fault.plan.times;
  ++fault.hits;
  errno = fault.error;
  return true;
}

// Counts a call and applies its fault. Returns whether the call must fail, and sets errno if so.
bool fails(call call_index) noexcept {
  ++table().call_counts[static_cast<std::size_t>(call_index)];
  return consume_fault(call_index);
}

// Whether further calls will fail.
bool is_failing(call call_index) noexcept {
  const armed& fault = fault_of(call_index);
  return fault.active && fault.plan.times != 0;
}

// A result that replaces the kernel's result in a completion.
struct replaced_result {
  std::uint64_t user_data;
  int result;
};
thread_local std::vector<replaced_result> replaced_results;

// Returns the system call that corresponds to a file request of a ring; `calls` if there is none.
call file_call_of(const io_uring_sqe& request) noexcept {
  constexpr int opcode_ftruncate = 55;
  switch (request.opcode) {
    case IORING_OP_OPENAT: return open_call;
    case IORING_OP_CLOSE: return close_call;
    case IORING_OP_READ: return pread_call;
    case IORING_OP_WRITE: return pwrite_call;
    case IORING_OP_STATX: return statx_call;
    case IORING_OP_FSYNC:
      return (request.fsync_flags & IORING_FSYNC_DATASYNC) != 0 ? fdatasync_call : fsync_call;
    case opcode_ftruncate: return ftruncate_call;
    default: return calls;
  }
}

void spoil_file_call(io_uring_sqe& request) {
  const call file_call = file_call_of(request);
  if (file_call == calls || !consume_fault(file_call)) return;
  const std::uint64_t name = request.user_data;
  replaced_results.push_back({name, -errno});
  if (file_call == close_call) return;  // a failing close(2) still closes the descriptor
  io_uring_prep_nop(&request);
  request.user_data = name;
}

void spoil_completions(std::span<io_uring_cqe* const> completions) noexcept {
  for (io_uring_cqe* const completion : completions) {
    const auto position =
        std::ranges::find(replaced_results, completion->user_data, &replaced_result::user_data);
    if (position == replaced_results.end()) continue;
    completion->res = position->result;
    replaced_results.erase(position);
  }
}

// Invalidates each request in `ring` whose equivalent system call must fail: gyre then uses that
// system call, which fails as the fault specifies.
void spoil_submissions(const io_uring& ring) {
  const bool fails_accepts = is_failing(accept4_call);
  const bool fails_receives = is_failing(recv_call);
  for (unsigned position = ring.sq.sqe_head; position != ring.sq.sqe_tail; ++position) {
    io_uring_sqe& request = ring.sq.sqes[position & *ring.sq.kring_mask];
    spoil_file_call(request);
    if (fails_accepts && request.opcode == IORING_OP_ACCEPT) request.fd = -1;
    if (fails_receives && request.opcode == IORING_OP_RECV) request.buf_group = 0xffff;
    // A multishot poll has no equivalent system call, so its waiter gets the error.
    const bool watches =
        request.opcode == IORING_OP_POLL_ADD && (request.len & IORING_POLL_ADD_MULTI) != 0;
    if (watches && consume_fault(epoll_ctl_call)) request.fd = -1;
  }
}

template <class Function>
Function* next(Function*, const char* name) noexcept {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

int index_of_call(std::string_view call_name) {
  const auto* const position = std::ranges::find(names, call_name);
  if (position == names.end())
    throw std::invalid_argument("fault: no known call_name: '" + std::string(call_name) + "'");
  return static_cast<int>(position - names.begin());
}

}  // namespace

fault::fault(std::string_view call_name, int error, plan fault_plan)
    : call_(index_of_call(call_name)) {
  fault_of(call_) = {.plan = fault_plan, .error = error, .hits = 0, .active = true};
}
fault::~fault() { fault_of(call_).active = false; }
int fault::hits() const noexcept { return fault_of(call_).hits; }
std::span<const std::string_view> fault::known_calls() noexcept { return names; }

std::size_t calls_made(std::string_view call_name) {
  return table().call_counts[static_cast<std::size_t>(index_of_call(call_name))];
}

int open_descriptors() {
  // The directory's own descriptor, which is listed, too, is subtracted.
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return static_cast<int>(std::distance(begin(entries), end(entries))) - 1;
}

}  // namespace gyre::testing

// The macro defines a replacement for a function of the C library, which looks up the original
// function once.
#define GYRE_TESTING_CALL(result, name, parameters, arguments)                            \
  extern "C" result name parameters {                                                     \
    static auto* const next_##name = gyre::testing::next(&(name), #name);                 \
    if (gyre::testing::fails(gyre::testing::name##_call)) return static_cast<result>(-1); \
    return next_##name arguments;                                                         \
  }

GYRE_TESTING_CALL(int, accept4, (int fd, sockaddr* peer, socklen_t* size, int flags),
                  (fd, peer, size, flags))
GYRE_TESTING_CALL(int, bind, (int fd, const sockaddr* name, socklen_t size) noexcept,
                  (fd, name, size))
// Closes the descriptor even if the call fails, as close(2) does on Linux.
extern "C" int close(int fd) {
  static auto* const next_close = gyre::testing::next(&close, "close");
  if (!gyre::testing::fails(gyre::testing::close_call)) return next_close(fd);
  const int error = errno;
  next_close(fd);
  errno = error;
  return -1;
}
GYRE_TESTING_CALL(int, connect, (int fd, const sockaddr* peer, socklen_t size), (fd, peer, size))
GYRE_TESTING_CALL(int, dup3, (int fd, int copy, int flags) noexcept, (fd, copy, flags))
GYRE_TESTING_CALL(int, epoll_create1, (int flags) noexcept, (flags))
GYRE_TESTING_CALL(int, epoll_ctl, (int epoll, int operation, int fd, epoll_event* event) noexcept,
                  (epoll, operation, fd, event))
GYRE_TESTING_CALL(int, epoll_pwait2,
                  (int epoll, epoll_event* events, int max_events, const timespec* timeout,
                   const sigset_t* signals),
                  (epoll, events, max_events, timeout, signals))
GYRE_TESTING_CALL(int, epoll_wait, (int epoll, epoll_event* events, int max_events, int timeout),
                  (epoll, events, max_events, timeout))
GYRE_TESTING_CALL(int, eventfd, (unsigned value, int flags) noexcept, (value, flags))
extern "C" int fcntl(int fd, int operation, ...) {
  static auto* const next_fcntl = gyre::testing::next(&fcntl, "fcntl");
  if (gyre::testing::fails(gyre::testing::fcntl_call)) return -1;
  va_list rest;
  va_start(rest, operation);
  void* const argument = va_arg(rest, void*);
  va_end(rest);
  return next_fcntl(fd, operation, argument);
}
GYRE_TESTING_CALL(int, fchmod, (int fd, mode_t mode) noexcept, (fd, mode))
GYRE_TESTING_CALL(int, fdatasync, (int fd), (fd))
GYRE_TESTING_CALL(int, fstat, (int fd, struct stat* status) noexcept, (fd, status))
GYRE_TESTING_CALL(int, fsync, (int fd), (fd))
GYRE_TESTING_CALL(int, ftruncate, (int fd, off_t size) noexcept, (fd, size))
GYRE_TESTING_CALL(ssize_t, getdents64, (int folder, void* buffer, size_t size) noexcept,
                  (folder, buffer, size))
GYRE_TESTING_CALL(int, getpeername, (int fd, sockaddr* name, socklen_t* size) noexcept,
                  (fd, name, size))
GYRE_TESTING_CALL(ssize_t, getrandom, (void* buffer, size_t size, unsigned flags),
                  (buffer, size, flags))
GYRE_TESTING_CALL(int, getsockname, (int fd, sockaddr* name, socklen_t* size) noexcept,
                  (fd, name, size))
GYRE_TESTING_CALL(int, getsockopt,
                  (int fd, int level, int option, void* buffer, socklen_t* size) noexcept,
                  (fd, level, option, buffer, size))
GYRE_TESTING_CALL(int, inotify_add_watch, (int fd, const char* path, std::uint32_t mask) noexcept,
                  (fd, path, mask))
GYRE_TESTING_CALL(int, inotify_init1, (int flags) noexcept, (flags))
GYRE_TESTING_CALL(int, listen, (int fd, int backlog) noexcept, (fd, backlog))
GYRE_TESTING_CALL(off_t, lseek, (int fd, off_t offset, int whence) noexcept, (fd, offset, whence))
GYRE_TESTING_CALL(int, madvise, (void* address, size_t size, int advice) noexcept,
                  (address, size, advice))
GYRE_TESTING_CALL(int, mkdirat, (int folder, const char* path, mode_t mode) noexcept,
                  (folder, path, mode))
// GCC's ThreadSanitizer calls mmap before a look-up is possible, so mmap is not replaced there.
#if !defined(__SANITIZE_THREAD__) || defined(__clang__)
extern "C" void* mmap(void* address, size_t size, int access, int flags, int fd,
                      off_t offset) noexcept {
  static auto* const next_mmap = gyre::testing::next(&mmap, "mmap");
  if (gyre::testing::fails(gyre::testing::mmap_call)) return MAP_FAILED;
  return next_mmap(address, size, access, flags, fd, offset);
}
#endif
extern "C" int open(const char* path, int flags, ...) {
  static auto* const next_open = gyre::testing::next(&open, "open");
  if (gyre::testing::fails(gyre::testing::open_call)) return -1;
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return next_open(path, flags, mode);
}
extern "C" int openat(int folder, const char* path, int flags, ...) {
  static auto* const next_openat = gyre::testing::next(&openat, "openat");
  if (gyre::testing::fails(gyre::testing::openat_call)) return -1;
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return next_openat(folder, path, flags, mode);
}
GYRE_TESTING_CALL(int, pipe2, (int* ends, int flags) noexcept, (ends, flags))
GYRE_TESTING_CALL(int, poll, (pollfd * descriptors, nfds_t count, int timeout),
                  (descriptors, count, timeout))
GYRE_TESTING_CALL(ssize_t, pread, (int fd, void* buffer, size_t size, off_t offset),
                  (fd, buffer, size, offset))
GYRE_TESTING_CALL(ssize_t, pwrite, (int fd, const void* data, size_t size, off_t offset),
                  (fd, data, size, offset))
GYRE_TESTING_CALL(ssize_t, read, (int fd, void* buffer, size_t size), (fd, buffer, size))
GYRE_TESTING_CALL(ssize_t, readv, (int fd, const iovec* pieces, int count), (fd, pieces, count))
GYRE_TESTING_CALL(ssize_t, recv, (int fd, void* buffer, size_t size, int flags),
                  (fd, buffer, size, flags))
GYRE_TESTING_CALL(int, recvmmsg,
                  (int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout),
                  (fd, messages, count, flags, timeout))
GYRE_TESTING_CALL(ssize_t, recvmsg, (int fd, msghdr* message, int flags), (fd, message, flags))
GYRE_TESTING_CALL(int, renameat2,
                  (int source_folder, const char* source, int target_folder, const char* target,
                   unsigned flags) noexcept,
                  (source_folder, source, target_folder, target, flags))
GYRE_TESTING_CALL(ssize_t, send, (int fd, const void* data, size_t size, int flags),
                  (fd, data, size, flags))
GYRE_TESTING_CALL(ssize_t, sendfile, (int sink, int file, off_t* offset, size_t count) noexcept,
                  (sink, file, offset, count))
GYRE_TESTING_CALL(int, sendmmsg, (int fd, mmsghdr* messages, unsigned count, int flags),
                  (fd, messages, count, flags))
GYRE_TESTING_CALL(ssize_t, sendmsg, (int fd, const msghdr* message, int flags),
                  (fd, message, flags))
GYRE_TESTING_CALL(int, setsockopt,
                  (int fd, int level, int option, const void* data, socklen_t size) noexcept,
                  (fd, level, option, data, size))
GYRE_TESTING_CALL(int, shutdown, (int fd, int direction) noexcept, (fd, direction))
GYRE_TESTING_CALL(int, signalfd, (int fd, const sigset_t* signals, int flags) noexcept,
                  (fd, signals, flags))
GYRE_TESTING_CALL(int, sockatmark, (int fd) noexcept, (fd))
GYRE_TESTING_CALL(int, socket, (int family, int type, int protocol) noexcept,
                  (family, type, protocol))
GYRE_TESTING_CALL(int, socketpair, (int family, int type, int protocol, int* ends) noexcept,
                  (family, type, protocol, ends))
GYRE_TESTING_CALL(int, statx,
                  (int folder, const char* path, int flags, unsigned mask,
                   struct statx* status) noexcept,
                  (folder, path, flags, mask, status))
// Only futex(2), with which gyre waits, can fail. Passes six arguments on, even if there are fewer.
extern "C" [[gnu::no_sanitize_address]] long syscall(long number, ...) noexcept {
  static auto* const next_syscall = gyre::testing::next(&syscall, "syscall");
  if (number == SYS_futex && gyre::testing::fails(gyre::testing::syscall_call)) return -1;
  va_list rest;
  va_start(rest, number);
  std::array<long, 6> arguments;
  for (long& argument : arguments) argument = va_arg(rest, long);
  va_end(rest);
  return next_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                      arguments[5]);
}
GYRE_TESTING_CALL(int, timerfd_create, (int clock, int flags) noexcept, (clock, flags))
GYRE_TESTING_CALL(int, timerfd_settime,
                  (int fd, int flags, const itimerspec* time, itimerspec* old_time) noexcept,
                  (fd, flags, time, old_time))
GYRE_TESTING_CALL(int, unlinkat, (int folder, const char* path, int flags) noexcept,
                  (folder, path, flags))
GYRE_TESTING_CALL(ssize_t, write, (int fd, const void* data, size_t size), (fd, data, size))
GYRE_TESTING_CALL(ssize_t, writev, (int fd, const iovec* pieces, int count), (fd, pieces, count))

// The macro defines a replacement for a function of liburing, which returns the negative error
// number.
#define GYRE_TESTING_RING_CALL(name, parameters, arguments)               \
  extern "C" int name parameters {                                        \
    static auto* const next_##name = gyre::testing::next(&(name), #name); \
    if (gyre::testing::fails(gyre::testing::name##_call)) return -errno;  \
    return next_##name arguments;                                         \
  }
// The macro defines a replacement for a function of liburing that submits requests.
#define GYRE_TESTING_SUBMIT_CALL(name, parameters, arguments)             \
  extern "C" int name parameters {                                        \
    static auto* const next_##name = gyre::testing::next(&(name), #name); \
    if (gyre::testing::fails(gyre::testing::name##_call)) return -errno;  \
    gyre::testing::spoil_submissions(*ring);                              \
    return next_##name arguments;                                         \
  }

GYRE_TESTING_RING_CALL(io_uring_get_events, (io_uring * ring), (ring))
extern "C" io_uring_probe* io_uring_get_probe_ring(io_uring* ring) {
  static auto* const next_probe =
      gyre::testing::next(&io_uring_get_probe_ring, "io_uring_get_probe_ring");
  if (gyre::testing::fails(gyre::testing::io_uring_get_probe_ring_call)) return nullptr;
  return next_probe(ring);
}
extern "C" unsigned io_uring_peek_batch_cqe(io_uring* ring, io_uring_cqe** completions,
                                            unsigned max_count) {
  static auto* const next_peek =
      gyre::testing::next(&io_uring_peek_batch_cqe, "io_uring_peek_batch_cqe");
  const unsigned count = next_peek(ring, completions, max_count);
  gyre::testing::spoil_completions(std::span(completions, count));
  return count;
}
GYRE_TESTING_RING_CALL(io_uring_queue_init, (unsigned entries, io_uring* ring, unsigned flags),
                       (entries, ring, flags))
GYRE_TESTING_RING_CALL(io_uring_queue_init_params,
                       (unsigned entries, io_uring* ring, io_uring_params* params),
                       (entries, ring, params))
GYRE_TESTING_RING_CALL(io_uring_register,
                       (unsigned fd, unsigned operation, const void* argument, unsigned count),
                       (fd, operation, argument, count))
GYRE_TESTING_RING_CALL(io_uring_register_buf_ring,
                       (io_uring * ring, io_uring_buf_reg* registration, unsigned flags),
                       (ring, registration, flags))
GYRE_TESTING_RING_CALL(io_uring_register_sync_cancel,
                       (io_uring * ring, io_uring_sync_cancel_reg* request), (ring, request))
GYRE_TESTING_RING_CALL(io_uring_wait_cqe_timeout,
                       (io_uring * ring, io_uring_cqe** first, __kernel_timespec* timeout),
                       (ring, first, timeout))
GYRE_TESTING_SUBMIT_CALL(io_uring_submit, (io_uring * ring), (ring))
GYRE_TESTING_SUBMIT_CALL(io_uring_submit_and_get_events, (io_uring * ring), (ring))
GYRE_TESTING_SUBMIT_CALL(io_uring_submit_and_wait, (io_uring * ring, unsigned count), (ring, count))
GYRE_TESTING_SUBMIT_CALL(io_uring_submit_and_wait_timeout,
                         (io_uring * ring, io_uring_cqe** first, unsigned count,
                          __kernel_timespec* timeout, sigset_t* signals),
                         (ring, first, count, timeout, signals))
