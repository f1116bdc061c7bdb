// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/named_thread.hpp>

#include <gyre/base/clock.hpp>
#include <gyre/base/error.hpp>

#include <sched.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace gyre::detail {
namespace {

class thread_attributes {
 public:
  thread_attributes() { check(::pthread_attr_init(&attributes_), "pthread_attr_init"); }
  thread_attributes& operator=(thread_attributes&&) = delete;
  ~thread_attributes() { ::pthread_attr_destroy(&attributes_); }

  void pin(const std::vector<int>& cpus) {
    constexpr int max_cpus = 1 << 20;  // much more than Linux supports
    const auto [lowest_cpu, highest_cpu] = std::ranges::minmax(cpus);
    if (lowest_cpu < 0 || highest_cpu >= max_cpus) {
      throw_system_error(EINVAL, "thread affinity: no such CPU");
    }
    const std::size_t cpu_capacity =
        std::max<std::size_t>(static_cast<std::size_t>(highest_cpu) + 1, std::size_t{CPU_SETSIZE});
    const std::size_t size = CPU_ALLOC_SIZE(cpu_capacity);
    std::vector<std::byte> memory(size);
    auto* const set = ::new (memory.data()) cpu_set_t;
    for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), size, set);
    check(::pthread_attr_setaffinity_np(&attributes_, size, set), "thread affinity");
  }

  const pthread_attr_t* get() const noexcept { return &attributes_; }

  static void check(int error, const char* function_name) {
    if (error != 0) throw_system_error(error, function_name);
  }

 private:
  pthread_attr_t attributes_;
};

// Blocks the asynchronous signals in the calling thread for a scope, so that a thread started in
// the scope inherits the mask. (pthread_attr_setsigmask_np() would need no scope, but only glibc
// has it.)
class blocked_signals {
 public:
  blocked_signals() noexcept {
    sigset_t signals;
    ::sigfillset(&signals);
    // These signals stay unblocked: synchronous signals and, the last two, signals of profilers.
    for (const int signal : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGPIPE, SIGSEGV, SIGSYS, SIGTRAP,
                             SIGTTIN, SIGTTOU, SIGXFSZ, SIGPROF, SIGVTALRM}) {
      ::sigdelset(&signals, signal);
    }
    ::pthread_sigmask(SIG_BLOCK, &signals, &previous_mask_);
  }
  blocked_signals& operator=(blocked_signals&&) = delete;
  ~blocked_signals() { ::pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr); }

 private:
  sigset_t previous_mask_;
};

// The name and the function of a new thread, passed to run_thread().
struct start {
  std::string name;
  move_only_function<void()> work;
};

void* run_thread(void* argument) {
  const std::unique_ptr<start> arguments(static_cast<start*>(argument));
  constexpr std::size_t max_name_length = 15;
  if (!arguments->name.empty()) {
    ::pthread_setname_np(::pthread_self(), arguments->name.substr(0, max_name_length).c_str());
  }
  arguments->work();
  return nullptr;
}

}  // namespace

named_thread::named_thread(const std::string& name, const std::vector<int>& cpus,
                           move_only_function<void()> work) {
  thread_attributes attributes;
  if (!cpus.empty()) attributes.pin(cpus);
  std::packaged_task<void()> run_and_announce([work = std::move(work)]() mutable noexcept {
    work();
    work = {};
  });
  completion_ = run_and_announce.get_future();
  auto arguments = std::make_unique<start>(name, std::move(run_and_announce));
  const blocked_signals signal_mask;
  thread_attributes::check(
      ::pthread_create(&thread_, attributes.get(), &run_thread, arguments.get()), "pthread_create");
  static_cast<void>(arguments.release());
}

named_thread::~named_thread() { assert(is_joined_or_detached_); }

void named_thread::join() {
  if (is_joined_or_detached_) return;
  if (is_current()) throw_system_error(EDEADLK, "a thread waits for its own end");
  ::pthread_join(thread_, nullptr);
  is_joined_or_detached_ = true;
}

void named_thread::detach() noexcept {
  is_joined_or_detached_ = true;
  ::pthread_detach(thread_);
}

bool named_thread::join_for(std::chrono::nanoseconds timeout) {
  const steady_time deadline = later(monotonic_now(), timeout);
  if (!is_joined_or_detached_ && completion_.wait_until(deadline) != std::future_status::ready)
    return false;
  join();
  return true;
}

}  // namespace gyre::detail
