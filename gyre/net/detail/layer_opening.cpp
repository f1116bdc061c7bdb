// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/layer_opening.hpp>

#include <gyre/io/error.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/tcp_stream.hpp>

#include <exception>
#include <utility>

namespace gyre::net::detail {

layer_opening::layer_opening(connection_group& group, unique_fd connection,
                             std::unique_ptr<layer> protocol, function callback)
    : layer_opening(group,
                    std::make_shared<layered_core>(tcp_stream(group.loop(), std::move(connection)),
                                                   std::move(protocol)),
                    std::move(callback)) {}

layer_opening::layer_opening(connection_group& group, core_ptr core, function callback)
    : started_task(group.loop(), shake_hands(core, this)),
      group_(group),
      core_(std::move(core)),
      callback_(std::move(callback)),
      result_(core_->protocol->timeout_error()),
      end_timer_(group.loop(), [this] { end(); }) {}

layer_opening::~layer_opening() { static_cast<void>(count_held(0)); }

void layer_opening::start() {
  const duration limit = core_->protocol->handshake_timeout();
  if (limit.count() > 0) end_timer_.start_after(limit);
  started_task::start();
}

std::error_code layer_opening::note_step(const layer& protocol) noexcept {
  return count_held(protocol.held_by_handshake()) ? std::error_code() : io::errc::memory_limit;
}

void layer_opening::on_work_ended() noexcept {
  const std::exception_ptr error = take_error();
  result_ = error ? code_of(error) : std::error_code();
  end_timer_.start_after(duration::zero());
}

// Counts the memory of the handshake; returns false if it would exceed the memory limit.
bool layer_opening::count_held(std::size_t bytes) noexcept {
  return group_.count_held_by_handshake(std::exchange(counted_bytes_, bytes), bytes);
}

void layer_opening::end() {
  discard();
  function callback = std::move(callback_);
  callback(result_);
}

}  // namespace gyre::net::detail
