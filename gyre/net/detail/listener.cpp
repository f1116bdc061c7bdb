// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/listener.hpp>

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace gyre::net::detail {
namespace {

using namespace std::chrono_literals;

constexpr int most_refused_at_once = 64;
constexpr std::chrono::milliseconds shortest_pause = 10ms;
constexpr std::chrono::milliseconds longest_pause = 1s;

unique_fd open_reserve() noexcept { return unique_fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

bool is_out_of_descriptors(int error) noexcept { return error == EMFILE || error == ENFILE; }

bool is_exhausted(int error) noexcept {
  return is_out_of_descriptors(error) || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

listening::listening(event_loop& loop, socket listener)
    : open_descriptor(loop, listener.release(), io::handle_kind::socket),
      reserve_(open_reserve()) {}

void listening::close() noexcept {
  accepting_connection* const waits = end_pause();
  open_descriptor::close();
  if (waits != nullptr) waits->complete(io::result::failure(ECANCELED));
}

unique_fd listening::release() noexcept {
  accepting_connection* const waits = end_pause();
  unique_fd released = open_descriptor::release();
  if (waits != nullptr) waits->complete(io::result::failure(ECANCELED));
  return released;
}

accepting_connection* listening::end_pause() noexcept {
  if (retrying_ != nullptr) loop().cancel_timer(retrying_->retry_);
  return std::exchange(retrying_, nullptr);
}

void listening::begin_pause(accepting_connection& waits) noexcept {
  retrying_ = &waits;
  pause_ = std::clamp(2 * pause_, shortest_pause, longest_pause);
  loop().start_timer(waits.retry_, loop().deadline_after(pause_));
}

void listening::report_once(const char* why) noexcept {
  if (std::exchange(told_, true)) return;
  std::fprintf(stderr, "gyre: accept: %s; connections are refused (said once per listener)\n", why);
}

void listening::note_refused(std::error_code why) noexcept {
  ++refused_;
  report_once(std::strerror(why.value()));
}

void listening::refuse_all(int error) noexcept {
  report_once(std::strerror(error));
  if (!is_out_of_descriptors(error)) return;
  for (int left = most_refused_at_once; left > 0 && refuse_one(); --left) {
  }
}

// Whether there may be one more.
bool listening::refuse_one() noexcept {
  reserve_.reset();
  unique_fd refused(::accept4(fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const int error = errno;
  const bool accepted = static_cast<bool>(refused);
  refused.reset();
  reserve_ = open_reserve();
  if (accepted) ++refused_;
  return accepted || (error != EAGAIN && !is_exhausted(error));
}

std::optional<io::result> accepting_connection::begin() noexcept {
  const std::optional<io::result> made = single_request::begin();
  return made ? advance(*made) : std::nullopt;
}

// Without a descriptor accept(2) does not even look whether somebody waits, so that to try again at
// once would only burn the processor.
std::optional<io::result> accepting_connection::advance(io::result made) noexcept {
  if (is_exhausted(made.error_number())) {
    listener().refuse_all(made.error_number());
    listener().begin_pause(*this);
    return std::nullopt;
  }
  if (made) listener().forget_pauses();
  return made;
}

std::optional<io::result> accepting_connection::cancel() noexcept {
  if (listener().end_pause() != nullptr) return std::nullopt;
  return single_request::cancel();
}

void accepting_connection::on_expiry(timer_operation& expired) {
  accepting_connection& self = static_cast<retry_timer&>(expired).self;
  self.listener().end_pause();
  const std::optional<io::result> made = self.single_request::begin();
  if (made) self.complete(*made);
}

socket accepting_connection::take(io::result made) noexcept {
  if (peer_to_ != nullptr) {
    const socklen_t size = std::min<socklen_t>(peer_size, endpoint::capacity());
    std::memcpy(peer_to_->data(), &this->peer, size);
    peer_to_->resize(size);
  }
  return socket(unique_fd(made.fd()));
}

}  // namespace gyre::net::detail
