// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/connection_race.hpp>

#include <gyre/io/error.hpp>
#include <gyre/net/detail/connect_attempt.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/detail/layered_core.hpp>
#include <gyre/task/detail/started_task.hpp>
#include <gyre/task/task.hpp>

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>

namespace gyre::net::detail {

/// An attempt to connect to one address and to complete the layer's handshake, each within a limit.
/// The attempt is never stopped: its destructor closes everything, and may run at any time.
class connection_race::attempt final : gyre::detail::started_task<attempt, opened_connection> {
 public:
  attempt(connection_race& race, const endpoint& peer)
      : started_task(race.loop_, open(*this, peer)),
        race_(race),
        peer_(peer),
        limit_(race.loop_, [this] { expire(); }) {}

  void begin() {
    if (const auto limit = race_.settings_.time_limit) {
      set_limit(*limit, io::errc::connect_timeout);
    }
    start();
  }
  const endpoint& peer() const noexcept { return peer_; }
  bool is_shaking_hands() const noexcept { return is_shaking_hands_ && !has_ended_; }
  bool has_ended() const noexcept { return has_ended_; }
  /// Returns the error after the end; none if the attempt has succeeded.
  std::error_code error() const noexcept { return error_; }
  using started_task::take_result;

 private:
  friend started_task;

  static task<opened_connection> open(attempt& self, endpoint peer) {
    const attempt_settings& settings = self.race_.settings_;
    opened_connection result;
    result.peer = peer;
    task<tcp_stream> connect_task = connect_to(self.race_.loop_, peer, settings.connecting);
    result.stream = co_await std::move(connect_task);
    if (settings.transport == nullptr) co_return result;
    const bool is_named = !settings.host.empty() || !peer.is_ip();
    const std::string host = is_named ? std::string(settings.host) : peer.address().to_string();
    result.protocol = make_layer(*settings.transport, host);
    if (result.protocol->is_established()) co_return result;
    self.is_shaking_hands_ = true;
    self.set_limit(result.protocol->handshake_timeout(), result.protocol->timeout_error());
    const core_ptr core =
        std::make_shared<layered_core>(std::move(result.stream), std::move(result.protocol));
    task<> handshake = shake_hands(core);
    co_await std::move(handshake);
    result.stream = std::move(core->inner);
    result.protocol = std::move(core->protocol);
    co_return result;
  }

  // Limits the next step; a `limit` of zero means no limit.
  void set_limit(duration limit, std::error_code error) noexcept {
    limit_error_ = error;
    limit_.cancel();
    if (limit.count() > 0) limit_.start_after(limit);
  }
  void expire() noexcept {
    discard();
    end(limit_error_);
  }
  void on_work_ended() noexcept {
    limit_.cancel();
    const std::exception_ptr error = take_error();
    end(error ? code_of(error) : std::error_code());
  }
  void end(std::error_code error) noexcept {
    error_ = error;
    has_ended_ = true;
    race_.wake();
  }

  connection_race& race_;
  const endpoint peer_;
  timer limit_;
  std::error_code limit_error_;
  bool is_shaking_hands_ = false;
  bool has_ended_ = false;
  std::error_code error_;
};

connection_race::connection_race(event_loop& loop, const attempt_settings& settings,
                                 move_only_function<void()> callback) noexcept
    : loop_(loop),
      settings_(settings),
      end_callback_(std::move(callback)),
      step_(loop, [this] { advance(); }),
      error_(cancelled()) {}

connection_race::~connection_race() = default;

void connection_race::add(std::span<const endpoint> candidates) noexcept {
  try {
    candidates_.add(candidates);
  } catch (const std::bad_alloc&) {
    error_ = no_memory();
  }
  if (!step_.active()) wake();
}

void connection_race::end_of_candidates(std::error_code error) noexcept {
  is_complete_ = true;
  if (error && !has_candidates()) error_ = error;
  if (!step_.active()) wake();
}

std::expected<opened_connection, std::error_code> connection_race::take_result() noexcept {
  if (!winner_) return std::unexpected(error_);
  return *std::move(winner_);
}

// Schedules advance(). The call may run a function of the user, which may throw, so that it runs in
// a turn of the timer.
void connection_race::wake() noexcept {
  if (!is_over()) step_.start_after(duration::zero());
}

void connection_race::advance() {
  collect_ended();
  if (!winner_ && may_start()) start_next();
  const bool has_lost = attempts_.empty() && is_complete_ && !candidates_.has_next();
  if (!winner_ && !has_lost) return;
  move_only_function<void()> callback = std::exchange(end_callback_, nullptr);
  attempts_.clear();
  step_.cancel();
  callback();
}

void connection_race::collect_ended() noexcept {
  std::erase_if(attempts_, [this](attempt& candidate) {
    if (!candidate.has_ended() || winner_) return false;
    if (candidate.error()) {
      note_failure(candidate.error(), candidate.peer());
    } else {
      winner_ = candidate.take_result();
    }
    return true;
  });
}

bool connection_race::may_start() const noexcept {
  return candidates_.has_next() && std::ranges::none_of(attempts_, &attempt::is_shaking_hands);
}

void connection_race::start_next() noexcept {
  const endpoint peer = *candidates_.take_next();
  try {
    attempt& new_attempt = attempts_.emplace_back(*this, peer);
    step_.start_after(settings_.delay);
    new_attempt.begin();
  } catch (const std::bad_alloc&) {
    note_failure(no_memory(), peer);
    wake();
  }
}

void connection_race::note_failure(std::error_code error, const endpoint& peer) noexcept {
  error_ = error;
  last_failed_endpoint_ = peer;
}

}  // namespace gyre::net::detail
