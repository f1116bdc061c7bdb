// SPDX-License-Identifier: Apache-2.0
#include <gyre/tls/tls_stream.hpp>

#include <gyre/io/error.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/resolver.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/tls/detail/info.hpp>
#include <gyre/tls/detail/stream_state.hpp>
#include <gyre/tls/error.hpp>

#include <utility>

namespace gyre::tls {
namespace {

using detail::state_ptr;

[[noreturn]] void throw_not_open() {
  throw std::system_error(io::errc::not_open, "gyre::tls::tls_stream");
}

state_ptr opened(const state_ptr& state) {
  if (state == nullptr) throw_not_open();
  return state;
}

task<tls_stream> shake_hands_in_time(state_ptr state) {
  tls_stream made = detail::stream_state::stream_of(state);
  const duration limit = state->machine.loaded().handshake_timeout;
  try {
    task<> work = detail::shake_hands(state);
    if (limit.count() > 0) {
      co_await with_timeout(std::move(work), limit);
    } else {
      co_await std::move(work);
    }
  } catch (const std::system_error& error) {
    // ETIMEDOUT of the socket is another error.
    if (error.code() == time_limit_errc::expired) {
      throw std::system_error(errc::handshake_timeout, "gyre::tls");
    }
    throw;
  }
  co_return made;
}

task<tls_stream> accept_with(net::tcp_stream accepted, tls_context context) {
  if (context && !context.is_server()) {
    throw std::system_error(errc::bad_configuration, "gyre::tls::accept: a client's context");
  }
  auto state = std::make_shared<detail::stream_state>(std::move(accepted), context, std::string(),
                                                      session());
  task<tls_stream> work = shake_hands_in_time(std::move(state));
  tls_stream made = co_await std::move(work);
  co_return made;
}

task<tls_stream> connect_with(net::tcp_stream connected, std::string host, tls_context context,
                              session resumed) {
  if (context.is_server()) {
    throw std::system_error(errc::bad_configuration, "gyre::tls::connect: a server's context");
  }
  auto state = std::make_shared<detail::stream_state>(std::move(connected), context,
                                                      std::move(host), resumed);
  task<tls_stream> work = shake_hands_in_time(std::move(state));
  tls_stream made = co_await std::move(work);
  co_return made;
}

}  // namespace

tls_stream& tls_stream::operator=(tls_stream&& other) noexcept {
  if (this == &other) return *this;
  close();
  state_ = std::move(other.state_);
  return *this;
}
tls_stream::~tls_stream() { close(); }

bool tls_stream::is_open() const noexcept { return state_ != nullptr && state_->inner.is_open(); }
int tls_stream::fd() const noexcept { return is_open() ? state_->inner.fd() : -1; }
event_loop& tls_stream::loop() const { return opened(state_)->inner.loop(); }
net::endpoint tls_stream::local_endpoint() const { return opened(state_)->inner.local_endpoint(); }
net::endpoint tls_stream::peer_endpoint() const { return opened(state_)->inner.peer_endpoint(); }
net::socket_ref tls_stream::options() const { return opened(state_)->inner.options(); }
connection_info tls_stream::info() const {
  return detail::info_of(opened(state_)->machine.native());
}
tls::session tls_stream::session() const {
  return state_ == nullptr ? tls::session() : state_->machine.newest_session();
}

task<std::size_t> tls_stream::read_some(std::span<std::byte> bytes) {
  return detail::read(opened(state_), bytes, false);
}
task<std::size_t> tls_stream::read_exactly(std::span<std::byte> bytes) {
  return detail::read(opened(state_), bytes, true);
}
task<std::size_t> tls_stream::read_until(io::buffer& buffer, std::string_view delimiter,
                                         std::size_t limit) {
  return detail::read_until(opened(state_), buffer, delimiter, limit);
}
task<io::received> tls_stream::receive() { return detail::receive(opened(state_)); }
task<> tls_stream::wait_readable() { return detail::wait_readable(opened(state_)); }
bool tls_stream::is_quiet() noexcept { return state_ != nullptr && state_->is_quiet(); }
task<std::size_t> tls_stream::write_some(std::span<const std::byte> bytes) {
  return detail::write(opened(state_), bytes, false);
}
task<std::size_t> tls_stream::write_all(std::span<const std::byte> bytes) {
  return detail::write(opened(state_), bytes, true);
}
task<std::size_t> tls_stream::write_all(std::span<const iovec> pieces) {
  return detail::write_pieces(opened(state_), pieces);
}
task<std::size_t> tls_stream::write_all(io::received&& bytes) {
  return detail::write_received(opened(state_), std::move(bytes));
}
task<std::size_t> tls_stream::send_file(int file, ::off_t offset, std::size_t count) {
  return detail::write_file(opened(state_), file, offset, count);
}
task<> tls_stream::shutdown() { return detail::end_writing(opened(state_)); }

void tls_stream::close() noexcept {
  if (state_ != nullptr) state_->close();
}
void tls_stream::reset() noexcept {
  if (state_ != nullptr && state_->inner.is_open()) state_->inner.reset();
}

task<tls_stream> accept(net::tcp_stream accepted, const tls_context& context) {
  return accept_with(std::move(accepted), context);
}
task<tls_stream> connect(net::tcp_stream connected, std::string host, const tls_context& context,
                         const session& resumed) {
  return connect_with(std::move(connected), std::move(host), context, resumed);
}

namespace detail {

task<tls_stream> connect_text(net::resolver* names, std::string to, tls_context context,
                              session resumed) {
  net::host_port server(to);
  std::string host = server.is_name() ? server.host() : server.direct().address().to_string();
  task<net::tcp_stream> connecting =
      names != nullptr ? net::connect(*names, std::move(server)) : net::connect(std::move(server));
  net::tcp_stream connected = co_await std::move(connecting);
  task<tls_stream> work =
      connect_with(std::move(connected), std::move(host), std::move(context), std::move(resumed));
  tls_stream made = co_await std::move(work);
  co_return made;
}

}  // namespace detail
}  // namespace gyre::tls
