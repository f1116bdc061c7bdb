// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/listener.hpp>

#include <gyre/base/detail/log.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace gyre::net::detail {

listening_socket::listening_socket(event_loop& loop, socket new_socket)
    : open_descriptor(loop, new_socket.release(), io::handle_kind::socket) {}

void listening_socket::close() noexcept {
  accept_operation* const waiter = end_pause();
  open_descriptor::close();
  if (waiter != nullptr) waiter->complete(io::result::failure(io::errc::closed));
}

unique_fd listening_socket::release() noexcept {
  accept_operation* const waiter = end_pause();
  unique_fd fd_owner = open_descriptor::release();
  if (waiter != nullptr) waiter->complete(io::result::failure(io::errc::closed));
  return fd_owner;
}

void listening_socket::begin_pause(accept_operation& waiter, int error) noexcept {
  const accept_policy::pause pause = policy_.begin_pause(fd(), error);
  refused_count_ += pause.refused;
  report_once(error);
  waiter_ = &waiter;
  loop().start_timer(waiter.retry_, loop().deadline_after(pause.length));
}

accept_operation* listening_socket::end_pause() noexcept {
  if (waiter_ != nullptr) loop().cancel_timer(waiter_->retry_);
  return std::exchange(waiter_, nullptr);
}

void listening_socket::report_once(int error) noexcept {
  if (std::exchange(was_reported_, true)) return;
  gyre::detail::log(log_level::error, "gyre: accept: ", std::strerror(error),
                    "; connections are refused (said once per listener)");
}

void listening_socket::note_refused(std::error_code error) noexcept {
  ++refused_count_;
  report_once(error.value());
}

std::optional<io::result> accept_operation::begin() noexcept {
  const std::optional<io::result> result = single_request::begin();
  return result ? advance(*result) : std::nullopt;
}

std::optional<io::result> accept_operation::advance(io::result result) noexcept {
  if (accept_policy::is_exhaustion(result.error_number())) {
    listening().begin_pause(*this, result.error_number());
    return std::nullopt;
  }
  if (result) listening().note_accepted();
  return result;
}

std::optional<io::result> accept_operation::cancel() noexcept {
  if (listening().end_pause() != nullptr) return std::nullopt;
  return single_request::cancel();
}

void accept_operation::on_expiry(timer_operation& timer) {
  accept_operation& self = static_cast<retry_timer&>(timer).self;
  self.listening().end_pause();
  const std::optional<io::result> result = self.single_request::begin();
  if (result) self.complete(*result);
}

endpoint peer_of(const io::accept_request& request) noexcept {
  endpoint peer;
  const socklen_t size = std::min<socklen_t>(request.peer_size, endpoint::capacity());
  std::memcpy(peer.data(), &request.peer, size);
  peer.resize(size);
  return peer;
}

socket accept_operation::take(io::result result) noexcept {
  if (peer_to_ != nullptr) *peer_to_ = peer_of(*this);
  return socket(unique_fd(result.fd()));
}

}  // namespace gyre::net::detail
