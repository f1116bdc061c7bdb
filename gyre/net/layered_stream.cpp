// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/layered_stream.hpp>

#include <gyre/base/error.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/detail/layered_core.hpp>
#include <gyre/task/with_timeout.hpp>

#include <cerrno>
#include <system_error>

namespace gyre::net {
namespace {

using detail::core_ptr;

core_ptr opened(const core_ptr& core) {
  if (core == nullptr) throw std::system_error(io::errc::not_open, "gyre::net::layered_stream");
  return core;
}

}  // namespace

layered_stream::layered_stream(event_loop& loop, released_connection& source) {
  detail::require(source.layer != nullptr, "gyre::net::layered_stream: there is no layer");
  core_ = std::make_shared<detail::layered_core>(tcp_stream(loop, std::move(source.socket)),
                                                 std::move(source.layer));
  if (source.peer.is_ip()) core_->known_peer = std::make_unique<endpoint>(source.peer);
}

layered_stream& layered_stream::operator=(layered_stream&& other) noexcept {
  if (this == &other) return *this;
  close();
  core_ = std::move(other.core_);
  return *this;
}
layered_stream::~layered_stream() { close(); }

bool layered_stream::is_open() const noexcept { return core_ != nullptr && core_->inner.is_open(); }
int layered_stream::fd() const noexcept { return is_open() ? core_->inner.fd() : -1; }
event_loop& layered_stream::loop() const { return opened(core_)->inner.loop(); }
endpoint layered_stream::local_endpoint() const { return opened(core_)->inner.local_endpoint(); }
endpoint layered_stream::peer_endpoint() const {
  const core_ptr& core = opened(core_);
  return core->known_peer != nullptr ? *core->known_peer : core->inner.peer_endpoint();
}
socket_ref layered_stream::options() const { return opened(core_)->inner.options(); }
const net::layer* layered_stream::layer() const noexcept {
  return core_ == nullptr ? nullptr : core_->protocol.get();
}

task<std::size_t> layered_stream::read_some(std::span<std::byte> bytes) {
  return detail::read(opened(core_), bytes, false);
}
task<std::size_t> layered_stream::read_exactly(std::span<std::byte> bytes) {
  return detail::read(opened(core_), bytes, true);
}
task<std::size_t> layered_stream::read_until(io::buffer& buffer, std::string_view delimiter,
                                             std::size_t limit) {
  return detail::read_until(opened(core_), buffer, delimiter, limit);
}
task<io::received> layered_stream::receive() { return detail::receive(opened(core_)); }
task<> layered_stream::wait_readable() { return detail::wait_readable(opened(core_)); }
bool layered_stream::is_quiet() noexcept { return core_ != nullptr && core_->is_quiet(); }
task<std::size_t> layered_stream::write_some(std::span<const std::byte> bytes) {
  return detail::write(opened(core_), bytes, false);
}
task<std::size_t> layered_stream::write_all(std::span<const std::byte> bytes) {
  return detail::write(opened(core_), bytes, true);
}
task<std::size_t> layered_stream::write_all(std::span<const iovec> pieces) {
  return detail::write_pieces(opened(core_), pieces);
}
task<std::size_t> layered_stream::write_all(io::received&& bytes) {
  return detail::write_received(opened(core_), std::move(bytes));
}
task<std::size_t> layered_stream::send_file(int file, ::off_t offset, std::size_t count) {
  return detail::write_file(opened(core_), file, offset, count);
}
task<> layered_stream::shutdown() { return detail::end_writing(opened(core_)); }

void layered_stream::close() noexcept {
  if (core_ != nullptr) core_->close();
}
void layered_stream::reset() noexcept {
  if (core_ != nullptr && core_->inner.is_open()) core_->inner.reset();
}

released_connection layered_stream::release() {
  if (!is_open()) return {};
  detail::layered_core& core = *core_;
  const bool is_in_use = core.is_reading || core.is_writing || core.writer_reads;
  if (is_in_use || !core.output.empty()) {
    gyre::detail::throw_system_error(EINPROGRESS, "gyre::net::layered_stream::release");
  }
  if (core.protocol->has_announced_end() || core.protocol->why().code) {
    throw std::system_error(io::errc::not_open, "gyre::net::layered_stream::release");
  }
  const endpoint peer = core.known_peer != nullptr ? *core.known_peer : endpoint();
  return {.socket = core.inner.release(), .peer = peer, .layer = std::move(core.protocol)};
}

task<layered_stream> open_layer(tcp_stream connection, std::unique_ptr<layer> protocol_layer) {
  detail::require(protocol_layer != nullptr, "gyre::net::open_layer: there is no layer");
  if (!connection.is_open()) throw std::system_error(io::errc::not_open, "gyre::net::open_layer");
  const duration limit = protocol_layer->handshake_timeout();
  layered_stream result(
      std::make_shared<detail::layered_core>(std::move(connection), std::move(protocol_layer)));
  const net::layer& protocol = *result.layer();
  try {
    task<> work = detail::shake_hands(result.core_);
    if (limit.count() > 0) {
      co_await with_timeout(std::move(work), limit);
    } else {
      co_await std::move(work);
    }
  } catch (const std::system_error& error) {
    // The exact code is compared, because ETIMEDOUT of the socket is a different error.
    if (error.code() == time_limit_errc::expired) {
      throw std::system_error(protocol.timeout_error(), std::string(protocol.stream_name()));
    }
    throw;
  }
  co_return result;
}

}  // namespace gyre::net
