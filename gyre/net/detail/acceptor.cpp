// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/acceptor.hpp>

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace gyre::net::detail {
namespace {

unique_fd any_descriptor() noexcept { return unique_fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

acceptor::presence::presence(acceptor& of, unique_fd fd)
    : descriptor(of.loop_, std::move(fd), io::handle_kind::socket),
      accepting(descriptor.handle(), of),
      retry(of.loop_, [&of] { of.remove_hold(backing_off); }),
      reserve(any_descriptor()) {}

void acceptor::open() {
  open_.emplace(*this, listening_.release());
  accept_or_not();
}

void acceptor::close() noexcept {
  open_.reset();
  listening_.close();
}

void acceptor::add_hold(hold why) noexcept {
  holds_ = static_cast<std::uint8_t>(holds_ | why);
  accept_or_not();
}

void acceptor::remove_hold(hold why) noexcept {
  holds_ = static_cast<std::uint8_t>(holds_ & ~why);
  accept_or_not();
}

void acceptor::accept_or_not() noexcept {
  if (!open_) return;
  const bool accepts = open_->accepting.under_way();
  if (holds_ != 0 && accepts) open_->descriptor.cancel(open_->accepting);
  // One that repeats does not complete at once.
  if (holds_ == 0 && !accepts) static_cast<void>(open_->descriptor.start(open_->accepting));
}

void acceptor::on_accepted(io::request& asked, io::result what) {
  auto& accepting = static_cast<accept_one&>(asked);
  acceptor& self = *accepting.self;
  if (!what) return self.back_off(what.error());
  self.next_backoff_ = std::chrono::nanoseconds::zero();
  unique_fd connection(what.fd());
  endpoint peer;
  std::copy_n(reinterpret_cast<const char*>(&accepting.peer),
              std::min(accepting.peer_size, endpoint::capacity()),
              reinterpret_cast<char*>(peer.data()));
  peer.resize(accepting.peer_size);
  self.owner_.accepted(std::move(connection), peer);
}

// No descriptors or no memory, most likely. To try again at once would only burn the processor: the
// listening socket stays ready.
void acceptor::back_off(std::error_code why) {
  const bool first = next_backoff_ == std::chrono::nanoseconds::zero();
  next_backoff_ = first ? backoff_ : std::min(2 * next_backoff_, backoff_limit_);
  shed_one();
  open_->retry.start_after(next_backoff_);
  add_hold(backing_off);
  owner_.accepting_failed(why, first);
}

// With the descriptor kept for that. Who connected learns that it is refused, instead of waiting.
void acceptor::shed_one() noexcept {
  presence& here = *open_;
  if (here.reserve) {
    here.reserve.reset();
    const unique_fd refused(
        ::accept4(here.descriptor.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (refused) owner_.refused();
  }
  if (!here.reserve) here.reserve = any_descriptor();
}

}  // namespace gyre::net::detail
