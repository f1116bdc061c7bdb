// SPDX-License-Identifier: Apache-2.0
// Tests of urgent data that io_uring receives while a signal is pending. TCP does not pass urgent
// data then: the kernel's receive stops before it, and is not tried again when the signal has been
// handled. The program replaces the functions of liburing that submit requests, so that the signal
// arises within the system call that receives.
#include <gyre/io/uring_poller.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/io/descriptor.hpp>
#include <gyre/io/request.hpp>
#include <gyre/io/uring_support.hpp>
#include <tests/support/sanitizers.hpp>
#include <tests/support/signal_sender.hpp>
#include <tests/support/socket_pairs.hpp>
#include <tests/support/uring_variants.hpp>

#include <gtest/gtest.h>
#include <liburing.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

namespace uring_urgent_data_test {
namespace {

using namespace std::chrono_literals;

volatile std::sig_atomic_t signals_handled = 0;

// A socket whose input makes the kernel send SIGUSR1 to the calling thread.
class signal_socket {
 public:
  signal_socket() {
    const int receiver = ends_.first.get();
    const f_owner_ex self{F_OWNER_TID, ::gettid()};
    EXPECT_EQ(::fcntl(receiver, F_SETOWN_EX, &self), 0);
    EXPECT_EQ(::fcntl(receiver, F_SETSIG, SIGUSR1), 0);
    EXPECT_EQ(::fcntl(receiver, F_SETFL, ::fcntl(receiver, F_GETFL) | O_ASYNC), 0);
  }
  int sender() const { return ends_.second.get(); }

 private:
  gyre::test::fd_pair ends_ = gyre::test::unix_pair();
};

// The socket to which the next submission sends a byte; negative: none.
int next_signal = -1;

// Adds the request that causes the signal. It has no completion, so that the poller does not see
// it. Submissions come before receiving within one system call.
void submit_signal(io_uring* ring) {
  if (next_signal < 0) return;
  io_uring_sqe* const request = io_uring_get_sqe(ring);
  if (request == nullptr) return;
  io_uring_prep_send(request, next_signal, "s", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  request->flags |= IOSQE_CQE_SKIP_SUCCESS;
  next_signal = -1;
}

template <class Function>
Function* original(Function* /*replacement*/, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace
}  // namespace uring_urgent_data_test

extern "C" int io_uring_submit_and_get_events(io_uring* ring) {
  static const auto call = uring_urgent_data_test::original(&io_uring_submit_and_get_events,
                                                            "io_uring_submit_and_get_events");
  uring_urgent_data_test::submit_signal(ring);
  return call(ring);
}

extern "C" int io_uring_submit_and_wait(io_uring* ring, unsigned count) {
  static const auto call =
      uring_urgent_data_test::original(&io_uring_submit_and_wait, "io_uring_submit_and_wait");
  uring_urgent_data_test::submit_signal(ring);
  return call(ring, count);
}

extern "C" int io_uring_submit_and_wait_timeout(io_uring* ring, io_uring_cqe** first,
                                                unsigned count, __kernel_timespec* timeout,
                                                sigset_t* mask) {
  static const auto call = uring_urgent_data_test::original(&io_uring_submit_and_wait_timeout,
                                                            "io_uring_submit_and_wait_timeout");
  uring_urgent_data_test::submit_signal(ring);
  return call(ring, first, count, timeout, mask);
}

namespace uring_urgent_data_test {
namespace {

// A counting_receive counts the bytes that its handle receives.
struct counting_receive : gyre::io::receive_request {
  explicit counting_receive(gyre::io::handle& source)
      : receive_request(source, &count_bytes, gyre::io::repeat::until_cancelled) {}
  static void count_bytes(gyre::io::request& self, gyre::io::result outcome) {
    auto& own = static_cast<counting_receive&>(self);
    ASSERT_TRUE(outcome) << outcome.error().message();
    own.count += outcome.count();
    own.data.reset();
  }
  std::size_t count = 0;
};

class UringUrgentData : public testing::TestWithParam<gyre::test::uring_variant> {
 protected:
  void SetUp() override {
    const gyre::io::uring_support support = gyre::io::probe_uring();
    if (!support.usable) GTEST_SKIP() << support.reason;
    struct sigaction caught{};
    caught.sa_handler = [](int) { signals_handled = signals_handled + 1; };
    ASSERT_EQ(::sigaction(SIGUSR1, &caught, &former_), 0);
    signals_handled = 0;
    // A turn serves all, however long it takes.
    loop_ =
        std::make_unique<gyre::loop>(gyre::loop_options{.io_time = 1h},
                                     std::make_unique<gyre::io::uring_poller>(GetParam().features));
  }
  void TearDown() override {
    loop_.reset();
    if (!IsSkipped()) ::sigaction(SIGUSR1, &former_, nullptr);
  }

  // Sends bytes, which count as to be received unless they are urgent.
  void send(int socket, std::string_view bytes, int flags) {
    ASSERT_EQ(::send(socket, bytes.data(), bytes.size(), flags),
              static_cast<ssize_t>(bytes.size()));
    if (flags == 0) sent_ += bytes.size();
  }
  // Runs the loop until all sent bytes have come.
  void await(counting_receive& receiving) {
    const auto give_up = std::chrono::steady_clock::now() + 60s;
    while (receiving.count < sent_) {
      ASSERT_LT(std::chrono::steady_clock::now(), give_up) << "bytes did not come";
      if (!loop_->poll()) loop_->run_for(1ms);
    }
    EXPECT_EQ(receiving.count, sent_);
    receiving.count = sent_ = 0;
  }

  std::unique_ptr<gyre::loop> loop_;

 private:
  std::size_t sent_ = 0;
  struct sigaction former_{};
};

INSTANTIATE_TEST_SUITE_P(, UringUrgentData, testing::ValuesIn(gyre::test::uring_variants()),
                         [](const auto& tested) { return tested.param.name; });

TEST_P(UringUrgentData, ASignalDoesNotHideTheBytesBehindIt) {
  const signal_socket signals;
  constexpr int rounds = 5;
  for (int round = 0; round < rounds; ++round) {
    // A new connection: the poller remembers one that has misled it.
    auto [receiver, sender] = gyre::test::tcp_pair();
    gyre::io::descriptor here(*loop_, std::move(receiver), gyre::io::handle_kind::stream_socket);
    counting_receive receiving(here.handle());
    ASSERT_FALSE(here.start(receiving));
    // The kernel receives ahead only after some short messages.
    for (int i = 0; i < 20; ++i) {
      send(sender.get(), "short", 0);
      await(receiving);
    }
    send(sender.get(), "before", 0);
    send(sender.get(), "!", MSG_OOB);
    send(sender.get(), "behind", 0);
    next_signal = signals.sender();
    await(receiving);
    ASSERT_FALSE(HasFailure()) << "in round " << round;
  }
  // Without deferred task running, the kernel receives within other system calls, which need no
  // signal; ThreadSanitizer calls the handler later.
  if (GetParam().features.deferred_task_running && !gyre::test::thread_sanitizer_is_on) {
    EXPECT_EQ(signals_handled, rounds);
  }
}

// The signals arise at any moment: also while the loop waits, and while the kernel receives within
// other system calls. Regression: bytes behind urgent data that came alone were not found, and a
// read that several signals in a row had stopped was not tried again.
TEST_P(UringUrgentData, AStormOfSignalsHidesNothing) {
  auto [receiver, sender] = gyre::test::tcp_pair();
  gyre::io::descriptor here(*loop_, std::move(receiver), gyre::io::handle_kind::stream_socket);
  counting_receive receiving(here.handle());
  ASSERT_FALSE(here.start(receiving));
  while (loop_->poll()) {
  }
  const gyre::test::signal_sender signals(::pthread_self(), SIGUSR1, gyre::test::sends::repeatedly);
  for (int round = 0; round < 100; ++round) {
    send(sender.get(), "before", 0);
    if (round % 2 == 0) await(receiving);
    send(sender.get(), "!", MSG_OOB);
    send(sender.get(), "behind", 0);
    await(receiving);
    ASSERT_FALSE(HasFailure()) << "in round " << round;
  }
}

}  // namespace
}  // namespace uring_urgent_data_test
