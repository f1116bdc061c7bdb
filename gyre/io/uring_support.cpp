// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/uring_support.hpp>

#include <gyre/base/detail/read_file.hpp>
#include <gyre/base/detail/short_lived_thread.hpp>
#include <gyre/base/error.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/io/detail/buffer_ring.hpp>
#include <gyre/io/detail/uring.hpp>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <stdexcept>
#include <utility>

namespace gyre::io {
namespace {

using gyre::detail::throw_errno;
using gyre::detail::throw_system_error;

// The setup flags to try, from all features to none.
constexpr std::array<unsigned, 4> setups{
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SINGLE_ISSUER, IORING_SETUP_COOP_TASKRUN, 0};

constexpr std::array indispensable_features{
    std::pair{IORING_FEAT_NODROP, "IORING_FEAT_NODROP"},
    std::pair{IORING_FEAT_FAST_POLL, "IORING_FEAT_FAST_POLL"},
    std::pair{IORING_FEAT_EXT_ARG, "IORING_FEAT_EXT_ARG"},
};
constexpr std::array indispensable_operations{
    std::pair{IORING_OP_POLL_ADD, "IORING_OP_POLL_ADD"},
    std::pair{IORING_OP_POLL_REMOVE, "IORING_OP_POLL_REMOVE"},
    std::pair{IORING_OP_ASYNC_CANCEL, "IORING_OP_ASYNC_CANCEL"},
};
constexpr std::array file_operations{IORING_OP_OPENAT, IORING_OP_CLOSE, IORING_OP_READ,
                                     IORING_OP_WRITE,  IORING_OP_FSYNC, IORING_OP_STATX};

// Thrown if the kernel has io_uring, but lacks a feature that every ring of gyre needs.
class too_old : public std::runtime_error {
 public:
  explicit too_old(const char* feature)
      : runtime_error(std::string("the io_uring of this kernel is too old: it lacks ") + feature) {}
};

bool is_shortage(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == EAGAIN;
}

// A small ring on which features are tried.
class trial_ring {
 public:
  trial_ring() {
    int result = -EINVAL;
    for (std::size_t i = 0; i < setups.size() && result == -EINVAL; ++i) {
      result = io_uring_queue_init(4, &ring_, setups[i]);
    }
    if (result != 0) throw_system_error(-result, "io_uring_setup");
  }
  trial_ring& operator=(trial_ring&&) = delete;
  ~trial_ring() { io_uring_queue_exit(&ring_); }

  uring_features examine() {
    for (const auto& [feature, name] : indispensable_features) {
      if ((ring_.features & feature) == 0) throw too_old(name);
    }
    const std::unique_ptr<io_uring_probe, decltype(&io_uring_free_probe)> probe(
        io_uring_get_probe_ring(&ring_), &io_uring_free_probe);
    if (probe == nullptr) throw too_old("IORING_REGISTER_PROBE");
    const auto has = [&](io_uring_op op) {
      return io_uring_opcode_supported(probe.get(), op) != 0;
    };
    for (const auto& [operation, name] : indispensable_operations) {
      if (!has(operation)) throw too_old(name);
    }
    const unique_fd no_socket(::eventfd(1, EFD_CLOEXEC));
    if (!no_socket) throw_errno("eventfd");
    if (!polls_many_times(no_socket.get())) throw too_old("IORING_POLL_ADD_MULTI");
    return {
        .single_issuer = (ring_.flags & IORING_SETUP_SINGLE_ISSUER) != 0,
        .deferred_task_running = (ring_.flags & IORING_SETUP_DEFER_TASKRUN) != 0,
        .cooperative_task_running = (ring_.flags & IORING_SETUP_COOP_TASKRUN) != 0,
        .multishot_accept = accepts_many_times(no_socket.get()),
        .multishot_receive = receives_many_times(),
        .message_from_anywhere = receives_messages(),
        .files = std::ranges::all_of(file_operations, has),
    };
  }

 private:
  // The first completion of a request. The result is -ETIME if there was none.
  struct completion {
    int result = -ETIME;
    bool has_more = false;  // whether further completions will follow
  };

  bool polls_many_times(int readable_fd) {
    return submit(
               [&](io_uring_sqe* sqe) { io_uring_prep_poll_multishot(sqe, readable_fd, POLLIN); })
        .has_more;
  }

  // Returns whether the kernel knows multishot accept. The kernel checks the request before the
  // descriptor: EINVAL means that it does not know the request.
  bool accepts_many_times(int no_socket) {
    return submit([&](io_uring_sqe* sqe) {
             io_uring_prep_multishot_accept(sqe, no_socket, nullptr, nullptr, 0);
           }).result == -ENOTSOCK;
  }

  // Returns whether the kernel knows multishot receive. Receives a byte and then the end of the
  // stream, after which the kernel uses no buffer any more.
  bool receives_many_times() {
    const auto buffers = make_buffers();
    const int error = buffers->provide_to(ring_);
    if (is_shortage(error)) throw_system_error(error, "io_uring_register");
    if (error != 0) return false;
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      throw_errno("socketpair");
    }
    const unique_fd receiver(ends[0]);
    unique_fd sender(ends[1]);
    if (::send(sender.get(), "", 1, MSG_NOSIGNAL) != 1) throw_errno("send");
    sender.reset();
    const completion first = submit([&](io_uring_sqe* sqe) {
      io_uring_prep_recv_multishot(sqe, receiver.get(), nullptr, 0, 0);
      sqe->flags |= IOSQE_BUFFER_SELECT;
      sqe->buf_group = detail::buffer_ring::group;
    });
    return first.result == 1 && first.has_more;
  }

  static std::unique_ptr<detail::buffer_ring> make_buffers() try {
    return std::make_unique<detail::buffer_ring>();
  } catch (const std::bad_alloc&) {
    throw_system_error(ENOMEM, "mmap");
  }

  bool receives_messages() {
    constexpr unsigned result = 7;
    if (!detail::uring::send_message(ring_.ring_fd, result, ++last_user_data_)) return false;
    return first_completion().result == static_cast<int>(result);
  }

  // Submits one request per call: before Linux 5.18 the kernel stops at a request that it does not
  // know.
  template <class Prepare>
  completion submit(const Prepare& prepare) {
    io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
    prepare(sqe);
    sqe->user_data = ++last_user_data_;
    const int result = io_uring_submit(&ring_);
    if (result < 0) throw_system_error(-result, "io_uring_enter");
    return first_completion();
  }

  completion first_completion() {
    for (;;) {
      __kernel_timespec time_limit{.tv_sec = 1, .tv_nsec = 0};
      io_uring_cqe* cqe = nullptr;
      const int result = io_uring_wait_cqe_timeout(&ring_, &cqe, &time_limit);
      if (result == -EINTR) continue;
      if (result == -ETIME) return {};
      if (result != 0) throw_system_error(-result, "io_uring_enter");
      const completion new_completion{.result = cqe->res,
                                      .has_more = (cqe->flags & IORING_CQE_F_MORE) != 0};
      const bool is_last = cqe->user_data == last_user_data_;
      io_uring_cqe_seen(&ring_, cqe);
      if (is_last) return new_completion;
    }
  }

  io_uring ring_{};
  std::uint64_t last_user_data_ = 0;
};

struct probe_result {
  uring_support support;
  bool is_final = true;
};

probe_result probe() {
  try {
    uring_features features;
    gyre::detail::call_on_short_lived_thread([&] { features = trial_ring().examine(); });
    return {.support{.usable = true, .features = features}};
  } catch (const std::system_error& error) {
    return {.support{.reason = detail::why_no_uring(error)},
            .is_final = !is_shortage(error.code().value())};
  } catch (const too_old& error) {
    return {.support{.reason = error.what()}};
  }
}

// The cached result, which is never freed: threads may probe until the process ends.
std::atomic<const uring_support*> cached_support = nullptr;

std::string read_sysctl() {
  std::string value = gyre::detail::read_file("/proc/sys/kernel/io_uring_disabled").value_or("");
  while (value.ends_with('\n')) value.pop_back();
  return value;
}

}  // namespace

uring_support probe_uring() {
  // acquire: pairs with the release below; makes the cached result visible.
  if (const uring_support* support = cached_support.load(std::memory_order_acquire))
    return *support;
  probe_result outcome = probe();
  if (outcome.is_final) {
    auto support = std::make_unique<const uring_support>(outcome.support);
    const uring_support* expected = nullptr;
    // release: pairs with the acquire above. No lock: another thread might hold it during a fork.
    if (cached_support.compare_exchange_strong(expected, support.get(), std::memory_order_release,
                                               std::memory_order_relaxed)) {
      static_cast<void>(support.release());
    }
  }
  return std::move(outcome.support);
}

std::string detail::why_no_uring(const std::system_error& error) {
  return why_no_uring(error, error.code().value() == EPERM ? read_sysctl() : "");
}

std::string detail::why_no_uring(const std::system_error& error, std::string_view sysctl_value) {
  switch (error.code().value()) {
    case ENOSYS: return "this kernel has no io_uring";
    case EPERM:
      if (sysctl_value == "1") {
        return "the sysctl kernel.io_uring_disabled is 1, and this process has no privilege and is "
               "not in the group kernel.io_uring_group";
      }
      if (sysctl_value == "2") return "the sysctl kernel.io_uring_disabled is 2";
      [[fallthrough]];
    case EACCES: return "forbidden (seccomp, or a container's policy): " + error.code().message();
    default: return error.what();
  }
}

}  // namespace gyre::io
