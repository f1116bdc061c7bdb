// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/acceptor.hpp>

#include <algorithm>

namespace gyre::net::detail {

acceptor::registration::registration(acceptor& by, unique_fd fd)
    : descriptor(by.loop_, std::move(fd), io::handle_kind::socket),
      request(descriptor.handle(), by),
      retry(by.loop_, [&by] { by.set_hold(hold::backing_off, false); }),
      policy(by.options_.backoff, by.options_.backoff_limit) {}

void acceptor::open() {
  open_.emplace(*this, listening_.release());
  start_or_cancel();
}

void acceptor::close() noexcept {
  open_.reset();
  listening_.close();
}

void acceptor::set_hold(hold reason, bool held) noexcept {
  held ? holds_.insert(reason) : holds_.erase(reason);
  start_or_cancel();
}

void acceptor::start_or_cancel() noexcept {
  if (!open_) return;
  const bool accepting = open_->request.under_way();
  if (!holds_.empty() && accepting) open_->descriptor.cancel(open_->request);
  // A repeating request does not complete at once.
  if (holds_.empty() && !accepting) static_cast<void>(open_->descriptor.start(open_->request));
}

void acceptor::on_accepted(io::request& request, io::result result) {
  auto& accepting = static_cast<accept_any&>(request);
  acceptor& self = *accepting.self;
  if (!result) return self.back_off(result.error());
  self.open_->policy.reset();
  unique_fd connection(result.fd());
  endpoint peer;
  std::copy_n(reinterpret_cast<const char*>(&accepting.peer),
              std::min(accepting.peer_size, endpoint::capacity()),
              reinterpret_cast<char*>(peer.data()));
  peer.resize(accepting.peer_size);
  self.owner_.accepted(std::move(connection), peer);
}

void acceptor::back_off(std::error_code error) {
  registration& here = *open_;
  const accept_policy::pause pause = here.policy.begin_pause(here.descriptor.fd(), error.value());
  here.retry.start_after(pause.length);
  set_hold(hold::backing_off, true);
  owner_.accepting_paused(error, pause.first, pause.refused);
}

}  // namespace gyre::net::detail
