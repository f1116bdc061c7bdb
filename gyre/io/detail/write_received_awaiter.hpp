// SPDX-License-Identifier: Apache-2.0
// write_received_awaiter: the awaiter of stream::write_all(received&&). A write that does not wait
// allocates nothing; a write that must wait does so in allocated memory, together with a copy of
// the bytes. So the coroutine's frame, which holds the awaiter while the connection is idle, needs
// only three words for it.
#pragma once

#include <gyre/io/detail/request_awaiter.hpp>
#include <gyre/io/detail/stream_operations.hpp>
#include <gyre/io/received.hpp>
#include <gyre/io/request.hpp>
#include <gyre/task/context.hpp>

#include <cerrno>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <expected>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

namespace gyre::io::detail {

/// Writes the rest of some bytes, `before` of which were already written.
struct write_rest_operation : write_operation {
  write_rest_operation(open_descriptor* descriptor, std::span<const std::byte> bytes,
                       std::size_t bytes_before) noexcept
      : write_operation(descriptor, bytes, true) {
    done = bytes_before;
  }
};

/// Returns the error of an awaited operation that may not begin, like request_awaiter, or success.
inline io::result check_begin(const open_descriptor* target, bool busy,
                              const task_context& context) noexcept {
  if (target == nullptr || !target->is_open()) return io::result::failure(errc::not_open);
  const event_loop& loop = target->loop();
  if (context.where != &loop && !may_use(loop, *context.where)) {
    return io::result::failure(errc::wrong_thread);
  }
  if (context.stop.stop_requested()) return io::result::failure(ECANCELED);
  if (busy) return io::result::failure(errc::busy);
  return io::result::of(0);
}

/// | state   | tag | members                                                |
/// |---------|-----|--------------------------------------------------------|
/// | idle    | 0   | the descriptor and the bytes                           |
/// | ended   | 1   | the outcome, and the context for the error's exception |
/// | waiting | 2   | the allocated wait                                     |
///
/// Thread-safety, Lifetime: those of request_awaiter.
/// Complexity: allocates if it must wait.
class [[nodiscard]] write_received_awaiter {
 public:
  using value_type = std::size_t;

  write_received_awaiter(open_descriptor* descriptor, received&& bytes) noexcept
      : word_(reinterpret_cast<std::uintptr_t>(descriptor)), bytes_(std::move(bytes)) {}
  // An awaiter moves only before it is awaited.
  write_received_awaiter(write_received_awaiter&& other) noexcept
      : write_received_awaiter(other.descriptor(), std::move(other.bytes_)) {}
  write_received_awaiter& operator=(write_received_awaiter&&) = delete;
  ~write_received_awaiter() {
    if (tag() == idle) {
      std::destroy_at(&bytes_);
    } else if (tag() == waiting) {
      destroy_wait();
    }
  }

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting_coroutine) noexcept {
    return begin_wait(awaiting_coroutine) ||
           gyre::detail::gives_way(gyre::detail::context_of(awaiting_coroutine),
                                   awaiting_coroutine);
  }
  std::size_t await_resume() {
    if (tag() == waiting) [[unlikely]]
      return wait_->awaiter.await_resume();
    if (!ended_.outcome) [[unlikely]]
      gyre::detail::throw_failure(ended_.outcome.error(), ended_.context, write_operation::name);
    return ended_.outcome.count();
  }
  /// Returns the outcome as a value; called by as_expected().
  std::expected<std::size_t, std::error_code> result() {
    if (tag() == waiting) [[unlikely]]
      return wait_->awaiter.result();
    if (!ended_.outcome) [[unlikely]] {
      return std::unexpected(gyre::detail::failure_value(ended_.outcome.error(), ended_.context));
    }
    return ended_.outcome.count();
  }

  // Ends the wait at a time limit; called by with_timeout() on the loop's thread: see
  // gyre::detail::expirable_operation.
  template <class Promise>
  bool begin_wait(std::coroutine_handle<Promise> awaiting_coroutine) noexcept {
    return begin_operation(gyre::detail::context_of(awaiting_coroutine)) &&
           wait_->awaiter.begin_wait(awaiting_coroutine);
  }
  event_loop& timers() noexcept { return wait_->awaiter.timers(); }
  void expire() { wait_->awaiter.expire(); }
  bool has_expired() const noexcept { return tag() == waiting && wait_->awaiter.has_expired(); }

 private:
  // The copied bytes follow the object in its memory.
  struct wait {
    wait(open_descriptor* descriptor, std::span<const std::byte> copy,
         std::size_t bytes_before) noexcept
        : awaiter(std::in_place, descriptor, copy, bytes_before) {}
    request_awaiter<write_rest_operation> awaiter;
  };
  struct end {
    io::result outcome;
    const task_context* context;
  };

  static constexpr std::uintptr_t idle = 0;
  static constexpr std::uintptr_t ended = 1;
  static constexpr std::uintptr_t waiting = 2;
  static constexpr std::uintptr_t tags = 3;

  std::uintptr_t tag() const noexcept { return word_ & tags; }
  open_descriptor* descriptor() const noexcept {
    return reinterpret_cast<open_descriptor*>(word_ & ~tags);
  }

  // Returns false if the operation has ended. Returns the loop's memory in either case.
  bool begin_operation(const task_context& context) noexcept {
    const received bytes = std::move(bytes_);
    std::destroy_at(&bytes_);
    open_descriptor* const target = descriptor();
    const bool busy = target != nullptr && target->handle().writing();
    const io::result check = check_begin(target, busy, context);
    if (!check) [[unlikely]]
      return end_at_once(check, context);
    if (bytes.empty()) return end_at_once(io::result::of(0), context);
    write_request request(target->handle(), bytes.bytes(), nullptr, true);
    std::optional<io::result> outcome = target->start(request);
    if (outcome) [[likely]]
      return end_at_once(*outcome, context);
    outcome = target->cancel(request);
    if (outcome) return end_at_once(*outcome, context);
    return allocate_wait(request, context);
  }
  [[gnu::noinline]] bool allocate_wait(const write_request& request,
                                       const task_context& context) noexcept {
    const std::size_t count = request.rest.size();
    void* const memory = ::operator new(sizeof(wait) + count, std::nothrow);
    if (memory == nullptr) return end_at_once(io::result::failure(ENOMEM), context);
    auto* const copy = static_cast<std::byte*>(memory) + sizeof(wait);
    std::memcpy(copy, request.rest.data(), count);
    wait_ = new (memory) wait(descriptor(), std::span<const std::byte>(copy, count), request.done);
    word_ = waiting;
    return true;
  }
  bool end_at_once(io::result outcome, const task_context& context) noexcept {
    std::construct_at(&ended_, outcome, &context);
    word_ = ended;
    return false;
  }
  [[gnu::noinline]] void destroy_wait() noexcept {
    std::destroy_at(wait_);
    ::operator delete(wait_);
  }

  std::uintptr_t word_;  // holds the tag and, while idle, the descriptor
  union {
    received bytes_;
    end ended_;
    wait* wait_;
  };
};

static_assert(sizeof(write_received_awaiter) <= 24 &&
                  sizeof(request_awaiter<receive_operation>) <=
                      56 + sizeof(gyre::detail::bare_stop_callback),
              "each idle connection has both in the frame of its coroutine");

}  // namespace gyre::io::detail
