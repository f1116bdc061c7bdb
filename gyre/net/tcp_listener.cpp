// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/tcp_listener.hpp>

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace gyre::net {
namespace detail {
namespace {

constexpr std::chrono::nanoseconds minimum_pause = std::chrono::milliseconds{1};

unique_fd open_reserve() noexcept { return unique_fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

bool is_out_of_descriptors(int error) noexcept { return error == EMFILE || error == ENFILE; }

}  // namespace

accept_policy::accept_policy(std::chrono::nanoseconds shortest,
                             std::chrono::nanoseconds longest) noexcept
    : reserve_(open_reserve()),
      backoff_{.initial = std::max(shortest, minimum_pause),
               .longest = std::max({longest, shortest, minimum_pause})} {}

bool accept_policy::is_exhaustion(int error) noexcept {
  return is_out_of_descriptors(error) || error == ENOBUFS || error == ENOMEM;
}

accept_policy::pause accept_policy::begin_pause(int listening_fd, int error) noexcept {
  const std::chrono::nanoseconds length = backoff_.delay(++pauses_);
  std::size_t refused = 0;
  if (is_out_of_descriptors(error)) {
    for (std::size_t left = most_refused_at_once; left > 0; --left) {
      if (!refuse_one(listening_fd, refused)) break;
    }
  }
  return {.length = length, .refused = refused, .first = pauses_ == 1};
}

// Whether another connection may wait.
bool accept_policy::refuse_one(int listening_fd, std::size_t& refused) noexcept {
  reserve_.reset();
  unique_fd connection(::accept4(listening_fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const int error = errno;
  const bool accepted = static_cast<bool>(connection);
  connection.reset();
  reserve_ = open_reserve();
  if (accepted) ++refused;
  return accepted || (error != EAGAIN && !is_exhaustion(error));
}

listening_socket::listening_socket(event_loop& loop, socket listening)
    : open_descriptor(loop, listening.release(), io::handle_kind::socket) {}

void listening_socket::close() noexcept {
  accept_operation* const waiter = end_pause();
  open_descriptor::close();
  if (waiter != nullptr) waiter->complete(io::result::failure(io::errc::closed));
}

unique_fd listening_socket::release() noexcept {
  accept_operation* const waiter = end_pause();
  unique_fd released = open_descriptor::release();
  if (waiter != nullptr) waiter->complete(io::result::failure(io::errc::closed));
  return released;
}

void listening_socket::begin_pause(accept_operation& waiter, int error) noexcept {
  const accept_policy::pause pause = policy_.begin_pause(fd(), error);
  refused_ += pause.refused;
  report_once(error);
  waiter_ = &waiter;
  loop().start_timer(waiter.retry_, loop().deadline_after(pause.length));
}

accept_operation* listening_socket::end_pause() noexcept {
  if (waiter_ != nullptr) loop().cancel_timer(waiter_->retry_);
  return std::exchange(waiter_, nullptr);
}

void listening_socket::report_once(int error) noexcept {
  if (std::exchange(reported_, true)) return;
  std::fprintf(stderr, "gyre: accept: %s; connections are refused (said once per listener)\n",
               std::strerror(error));
}

void listening_socket::note_refused(std::error_code error) noexcept {
  ++refused_;
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

void accept_operation::on_expiry(timer_operation& expired) {
  accept_operation& self = static_cast<retry_timer&>(expired).self;
  self.listening().end_pause();
  const std::optional<io::result> result = self.single_request::begin();
  if (result) self.complete(*result);
}

endpoint peer_of(const io::accept_request& accepted) noexcept {
  endpoint peer;
  const socklen_t size = std::min<socklen_t>(accepted.peer_size, endpoint::capacity());
  std::memcpy(peer.data(), &accepted.peer, size);
  peer.resize(size);
  return peer;
}

socket accept_operation::take(io::result result) noexcept {
  if (peer_to_ != nullptr) *peer_to_ = peer_of(*this);
  return socket(unique_fd(result.fd()));
}

}  // namespace detail

namespace {

socket listening_at(const endpoint& local, const listener_options& options) {
  socket opened = socket::open(local.family(), socket_type::stream);
  opened.set_reuse_address(options.reuse_address);
  if (options.reuse_port) opened.set_reuse_port(true);
  if (local.family() == address_family::ipv6) opened.set_v6_only(options.v6_only);
  opened.apply(options.accepted);
  opened.bind(local);
  opened.listen(options.backlog);
  return opened;
}

}  // namespace

tcp_listener::tcp_listener(event_loop& loop, const endpoint& local, const listener_options& options)
    : listener(loop, listening_at(local, options)) {}

}  // namespace gyre::net
