// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/connector.hpp>

#include <gyre/net/detail/connecting.hpp>

#include <cerrno>
#include <new>
#include <utility>

namespace gyre::net::detail {

connector::attempt::attempt(connector& by)
    : deadline(by.loop_,
               [&by] { by.finish(by.attempt_->made.value_or(io::result::failure(ETIMEDOUT))); }) {}

void connector::begin(const endpoint& to, const endpoint& from, std::chrono::nanoseconds timeout) {
  attempt_.emplace(*this);
  attempt_->made = try_now(to, from);
  attempt_->deadline.start_after(attempt_->made ? std::chrono::nanoseconds::zero() : timeout);
}

// What came of it, if that is certain already.
std::optional<io::result> connector::try_now(const endpoint& to, const endpoint& from) {
  try {
    socket made = socket::open(to.family(), socket_type::stream);
    if (from.family() != address_family::none) {
      made.set_reuse_address(true);
      made.bind(from);
    }
    attempt_->descriptor.emplace(loop_, made.release(), io::handle_kind::stream_socket);
    attempt_->request.emplace(attempt_->descriptor->handle(), to, *this);
    return attempt_->descriptor->start(*attempt_->request);
  } catch (const std::system_error& error) {
    return io::result::failure(error.code().value());
  } catch (const std::bad_alloc&) {
    return io::result::failure(ENOMEM);
  }
}

void connector::on_connected(io::request& asked, io::result what) {
  static_cast<connecting&>(asked).self->finish(what);
}

void connector::finish(io::result what) {
  unique_fd connected;
  if (what) connected = attempt_->descriptor->release();
  attempt_.reset();
  if (!what) return owner_.connect_failed(what.error());
  bool to_itself = false;
  try {
    to_itself = is_connected_to_itself(socket_ref(connected.get()));
  } catch (const std::system_error& gone) {
    return owner_.connect_failed(gone.code());
  }
  if (to_itself) {
    connected.reset();
    return owner_.connect_failed(std::make_error_code(std::errc::address_in_use));
  }
  owner_.connected(std::move(connected));
}

}  // namespace gyre::net::detail
