// SPDX-License-Identifier: Apache-2.0
// epoll_poller: the poller on epoll(7) and eventfd(2).
#pragma once

#include <gyre/base/detail/wake_event.hpp>
#include <gyre/io/detail/chunked_array.hpp>
#include <gyre/io/detail/readiness_set.hpp>
#include <gyre/io/detail/ready_requests.hpp>
#include <gyre/io/detail/standing_deadline.hpp>
#include <gyre/io/detail/thread_parker.hpp>

#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>

namespace gyre::io {

namespace detail {

/// Requests on epoll: a descriptor is registered once, edge-triggered. A stream socket is
/// registered when it first has to wait: a socket whose peer sent before it was accepted, and that
/// is closed after the response, never is. Devices that epoll refuses because nothing waits for
/// them are tried in the loop's next turn instead.
///
/// Stream sockets, which the kernel reports as writable only after a write has found no room, and
/// descriptors that are not sockets are registered for both directions for good. Other sockets are
/// reported as writable whenever the kernel has freed memory of their output: a Unix socket
/// whenever its peer has read, a UDP socket whenever a datagram has left. They are watched for
/// writing only while writes have to wait:
///
/// | watched for | a write has to wait | reported as nothing but writable, and no write waits |
/// |---|---|---|
/// | reading | both | - |
/// | both | - | reading |
///
/// No edge is lost between a write that found no room and the change of the registration:
/// EPOLL_CTL_MOD first stores the new events, so that the kernel reports what happens from then on,
/// and then reports what is ready at that moment.
class epoll_requests final : public ready_requests {
 public:
  /// `reports`: the events that the poller has not processed yet. Removing a handle clears its
  /// events there.
  explicit epoll_requests(std::span<epoll_event>& reports) noexcept : reported_events_(reports) {}

  /// Uses another epoll instance from now on, and registers the attached handles with it.
  void use(int epoll);
  /// Serves a handle that epoll reported with `events`, and stops watching it for writing if no
  /// write waits for such reports.
  void serve_event(handle& target, std::uint32_t events, std::size_t& completions) {
    if (events == EPOLLOUT && target.writer == nullptr) stop_watching_writes(target);
    serve(target, events, completions);
  }
  /// Returns the handle that an event is for; null for one of the poller's own events.
  static handle* target_of(const epoll_event& event) noexcept {
    if ((event.data.u64 & handle_tag) == 0) return nullptr;
    return reinterpret_cast<handle*>(event.data.u64 & ~handle_tag);
  }

 private:
  static constexpr std::uint64_t handle_tag = 1;

  static std::uint64_t tagged(handle& target) noexcept {
    return reinterpret_cast<std::uintptr_t>(&target) | handle_tag;
  }
  // Returns whether the kernel reports a descriptor as writable too often to watch it for writing
  // all the time.
  static bool watches_writes_on_demand(const handle& target) noexcept {
    return target.kind() == handle_kind::socket;
  }
  bool watches_writes(const handle& target) const noexcept {
    return !watches_writes_on_demand(target) || writes_watched_[target.index];
  }
  std::uint32_t events_of(const handle& target) const noexcept;
  int try_register(handle& target, int operation) noexcept;
  void register_now(handle& target);
  int set_writes_watched(handle& target, bool is_watched) noexcept;
  void stop_watching_writes(handle& target) noexcept {
    if (watches_writes_on_demand(target) && watches_writes(target)) {
      // A registration that cannot be changed reports the descriptor too often, but not wrongly.
      static_cast<void>(set_writes_watched(target, false));
    }
  }

  void add(handle& target) override;
  void remove(handle& target) noexcept override;
  int watch(handle& target, direction side) noexcept override;
  int wait_for(handle& target, direction side) noexcept override;
  result take_early(handle&, request&) noexcept override { return result::failure(EINVAL); }
  bool may_have_early(const handle&) const noexcept override { return false; }

  std::span<epoll_event>& reported_events_;
  int epoll_ = -1;
  // Whether a handle that is watched for writing on demand is watched now; by the handle's index.
  chunked_array<bool> writes_watched_;
};

}  // namespace detail

/// The poller on epoll(7), the default where io_uring is missing, forbidden or slower;
/// io_interface::epoll requires it.
///
/// An eventfd for wake-ups is watched edge-triggered and never read: a wake-up costs one write(2).
/// While no descriptor is watched, the poller waits on a futex instead, which wakes faster.
/// Timeouts are in nanoseconds where the kernel has epoll_pwait2 (Linux 5.11), otherwise rounded up
/// to milliseconds. A deadline that several waits in a row share is set on a timerfd instead.
///
/// Thread-safety, Errors: as poller.
class epoll_poller final : public poller {
 public:
  /// Throws std::system_error (EMFILE, ENFILE, ENOMEM).
  epoll_poller() { open(); }

  steady_time now() const noexcept override { return gyre::detail::monotonic_now(); }
  std::size_t wait(steady_time deadline) override;
  void complete(std::size_t& completions) override;
  void wake() noexcept override;
  void watch(readiness_operation& op, readiness interest, trigger mode) override {
    watches_.watch(op, interest, mode);
  }
  void rewatch(readiness_operation& op, readiness interest, trigger mode) override {
    watches_.rewatch(op, interest, mode);
  }
  void unwatch(readiness_operation& op) noexcept override { watches_.unwatch(op); }
  std::size_t watched() const noexcept override { return watches_.size() + requests_.attached(); }
  io::backend* io() noexcept override { return &requests_; }
  void after_fork() override;
  const char* name() const noexcept override { return "epoll"; }

 private:
  static constexpr std::size_t max_events = 256;

  void open();
  bool serve_reported(std::size_t& completions);
  int wait_for_events(steady_time deadline);
  int wait_with_timeout(steady_time deadline);
  bool use_standing_deadline(steady_time deadline) noexcept;

  gyre::detail::thread_parker parker_;
  unique_fd epoll_;
  std::optional<gyre::detail::wake_event> wake_;
  bool has_nanosecond_wait_ = true;
  detail::standing_deadline standing_deadline_;
  std::array<epoll_event, max_events> events_;
  // The events of the last wait that have not been served yet.
  std::span<epoll_event> reported_events_;
  detail::readiness_set watches_{reported_events_};
  detail::epoll_requests requests_{reported_events_};
};

}  // namespace gyre::io
