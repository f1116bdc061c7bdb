// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/detail/named_thread.hpp>

#include <sched.h>

#include <cassert>
#include <cerrno>
#include <ctime>
#include <memory>
#include <utility>

#include <gyre/base/clock.hpp>
#include <gyre/base/error.hpp>

namespace gyre::detail {
namespace {

class thread_attributes {
 public:
  thread_attributes() { check(::pthread_attr_init(&attributes_), "pthread_attr_init"); }
  thread_attributes(const thread_attributes&) = delete;
  thread_attributes& operator=(const thread_attributes&) = delete;
  ~thread_attributes() { ::pthread_attr_destroy(&attributes_); }

  void pin(const std::vector<int>& cpus) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int cpu : cpus) {
      if (cpu < 0 || cpu >= CPU_SETSIZE) throw_system_error(EINVAL, "thread affinity: no such CPU");
      CPU_SET(static_cast<std::size_t>(cpu), &set);
    }
    check(::pthread_attr_setaffinity_np(&attributes_, sizeof set, &set), "thread affinity");
  }

  const pthread_attr_t* get() const noexcept { return &attributes_; }

  static void check(int error, const char* what) {
    if (error != 0) throw_system_error(error, what);
  }

 private:
  pthread_attr_t attributes_;
};

// What the new thread takes over.
struct start {
  std::string name;
  move_only_function<void()> work;
};

void* run_thread(void* argument) {
  const std::unique_ptr<start> begun(static_cast<start*>(argument));
  constexpr std::size_t longest_name = 15;
  if (!begun->name.empty()) {
    ::pthread_setname_np(::pthread_self(), begun->name.substr(0, longest_name).c_str());
  }
  begun->work();
  return nullptr;
}

}  // namespace

named_thread::named_thread(const std::string& name, const std::vector<int>& cpus,
                           move_only_function<void()> work) {
  thread_attributes attributes;
  if (!cpus.empty()) attributes.pin(cpus);
  auto begun = std::make_unique<start>(name, std::move(work));
  thread_attributes::check(::pthread_create(&thread_, attributes.get(), &run_thread, begun.get()),
                           "pthread_create");
  static_cast<void>(begun.release());
}

named_thread::~named_thread() { assert(ended_); }

void named_thread::join() noexcept {
  if (std::exchange(ended_, true)) return;
  [[maybe_unused]] const int error = ::pthread_join(thread_, nullptr);
  assert(error == 0 && "a thread cannot join itself");
}

void named_thread::detach() noexcept {
  ended_ = true;
  ::pthread_detach(thread_);
}

bool named_thread::join_for(std::chrono::nanoseconds timeout) noexcept {
  if (ended_) return true;
  const steady_time deadline = later(monotonic_now(), timeout);
  const auto since_epoch = deadline.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
  const timespec until{.tv_sec = static_cast<time_t>(seconds.count()),
                       .tv_nsec = static_cast<long>((since_epoch - seconds).count())};
  ended_ = ::pthread_clockjoin_np(thread_, nullptr, CLOCK_MONOTONIC, &until) == 0;
  return ended_;
}

}  // namespace gyre::detail
