// SPDX-License-Identifier: Apache-2.0
// boost::asio: steady_timers made beforehand, started by expires_at (expires_after would read the
// clock each time) and async_wait. The operation asio makes of each wait is stored in place by the
// handler's allocator, and the hint leaves out asio's locks: this is faster than what most programs
// do. A timer is cancelled when its handler has run with the error operation_aborted.
#include <lab/experiments/timers/workload.hpp>
#include <lab/harness/boost_version.hpp>

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <new>

namespace {

/// boost::asio::steady_timer with the executor's type known, which spares its indirect calls.
using steady_timer =
    boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                      boost::asio::wait_traits<std::chrono::steady_clock>,
                                      boost::asio::io_context::executor_type>;

/// Memory for one operation at a time.
class operation_storage {
 public:
  operation_storage() = default;
  operation_storage(const operation_storage&) = delete;
  operation_storage& operator=(const operation_storage&) = delete;

  void* get() { return bytes_; }
  static constexpr std::size_t size = 96;

 private:
  alignas(std::max_align_t) std::byte bytes_[size];
};

/// An allocator that returns the memory of an operation_storage.
template <class T>
struct in_place {
  using value_type = T;

  explicit in_place(operation_storage& memory) : where(&memory) {}
  template <class U>
  in_place(const in_place<U>& other) : where(other.where) {}

  T* allocate(std::size_t count) {
    static_assert(sizeof(T) <= operation_storage::size && alignof(T) <= alignof(std::max_align_t));
    if (count != 1) throw std::bad_alloc();
    return static_cast<T*>(where->get());
  }
  void deallocate(T*, std::size_t) {}
  bool operator==(const in_place&) const = default;

  operation_storage* where;
};

class asio_loop {
 public:
  static constexpr std::chrono::microseconds resolution{0};

  asio_loop(std::uint32_t timers, lab::timers::timer_results& done) : done_(done) {
    for (std::uint32_t i = 0; i < timers; ++i) timers_.emplace_back(context_);
  }

  template <class Begin>
  void run(Begin begin) {
    context_.restart();
    boost::asio::post(context_, [&] {
      now_ = std::chrono::steady_clock::now();
      begin();
    });
    context_.run();
  }

  lab::timers::entry& at(std::uint32_t index) { return timers_[index].entry; }

  void start(std::uint32_t index) {
    timer& started = timers_[index];
    started.waiting.expires_at(now_ + started.entry.delay);
    started.waiting.async_wait(boost::asio::bind_allocator(
        in_place<void>(started.operation), [this, &started](boost::system::error_code error) {
          if (!error) done_.fire(started.entry);
        }));
  }

  bool cancel(std::uint32_t index) { return timers_[index].waiting.cancel() == 1; }

 private:
  struct timer {
    explicit timer(boost::asio::io_context& context) : waiting(context) {}

    steady_timer waiting;
    lab::timers::entry entry;
    operation_storage operation;
  };

  lab::timers::timer_results& done_;
  std::chrono::steady_clock::time_point now_;
  boost::asio::io_context context_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE};
  std::deque<timer> timers_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::timers::contender_main<asio_loop>(argc, argv, {lab::boost_version()});
}
