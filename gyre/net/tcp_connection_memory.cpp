// SPDX-License-Identifier: Apache-2.0
// A connection's memory: its block of the slab, the peer's address, and members that few need.
#include <gyre/base/slab.hpp>
#include <gyre/net/detail/connection_extra.hpp>
#include <gyre/net/detail/connection_group.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <algorithm>
#include <memory>
#include <new>

namespace gyre::net {

tcp_connection::tcp_connection(detail::connection_group& group, int fd, std::uint64_t id,
                               const endpoint& peer)
    // On a Unix socket, recv stops behind bytes that came with descriptors.
    : io::handle(fd, peer.is_ip() ? io::handle_kind::stream_socket : io::handle_kind::socket),
      peer_port_(peer.port()),
      group_(&group),
      peer_form_(form_of(peer)),
      id_(id) {
  static_assert(sizeof(tcp_connection) == 112, "each idle connection has one");
  if (!peer_is_ip()) return;
  const ip_address address = peer.address();
  if (peer_form_ == peer_form::v6) {
    new (this + 1) ip_address(address);
  } else {
    std::ranges::copy(address.unmapped().bytes(), peer_v4_.begin());
  }
}

tcp_connection::~tcp_connection() {
  if (extra_ != nullptr && extra_->control != nullptr) {
    extra_->control->connection = nullptr;
    extra_->control->drop();
  }
  if (layered_) {
    delete static_cast<detail::layered_extra*>(extra_);
  } else {
    delete extra_;
  }
}

tcp_connection::peer_form tcp_connection::form_of(const endpoint& peer) noexcept {
  if (!peer.is_ip()) return peer_form::kernel;
  const ip_address address = peer.address();
  if (address.is_v4()) return peer_form::v4;
  return address.is_v4_mapped() && address.scope() == 0 ? peer_form::mapped_v4 : peer_form::v6;
}

std::size_t tcp_connection::bytes_with(peer_form form) noexcept {
  static_assert(sizeof(tcp_connection) % alignof(ip_address) == 0 && sizeof(ip_address) <= 32);
  return sizeof(tcp_connection) + (form == peer_form::v6 ? sizeof(ip_address) : 0);
}

tcp_connection* tcp_connection::make(detail::connection_group& group, int fd, std::uint64_t id,
                                     const endpoint& peer, std::unique_ptr<net::layer> protocol) {
  auto extra = protocol == nullptr ? nullptr : std::make_unique<detail::layered_extra>();
  void* const memory = slab_allocate(bytes_with(form_of(peer)));
  auto* const made = new (memory) tcp_connection(group, fd, id, peer);
  if (extra != nullptr) {
    extra->protocol = std::move(protocol);
    made->extra_ = extra.release();
    made->layered_ = true;
  }
  return made;
}

void tcp_connection::destroy(tcp_connection& connection) noexcept {
  const std::size_t bytes = bytes_with(connection.peer_form_);
  connection.~tcp_connection();
  slab_deallocate(&connection, bytes);
}

endpoint tcp_connection::peer_endpoint() const {
  switch (peer_form_) {
    case peer_form::v4: return endpoint(ip_address(peer_v4_), peer_port_);
    case peer_form::mapped_v4: {
      ip_address::v6_bytes mapped{};
      mapped[10] = mapped[11] = 0xff;
      std::ranges::copy(peer_v4_, mapped.begin() + 12);
      return endpoint(ip_address(mapped), peer_port_);
    }
    case peer_form::v6:
      return endpoint(*std::launder(reinterpret_cast<const ip_address*>(this + 1)), peer_port_);
    case peer_form::kernel: break;
  }
  return is_open() ? socket_ref(handle::fd()).peer_endpoint() : endpoint();
}
endpoint tcp_connection::local_endpoint() const {
  return is_open() ? socket_ref(handle::fd()).local_endpoint() : endpoint();
}

detail::connection_extra& tcp_connection::extra() {
  if (extra_ == nullptr) extra_ = new detail::connection_extra;
  return *extra_;
}

detail::connection_backlog& tcp_connection::make_backlog() {
  auto& backlog = extra().backlog;
  if (backlog == nullptr) backlog = std::make_unique<detail::connection_backlog>(*this);
  return *backlog;
}

move_only_any& tcp_connection::context() { return extra().context; }
move_only_any* tcp_connection::attached_context() noexcept {
  return extra_ == nullptr ? nullptr : &extra_->context;
}

std::error_code tcp_connection::failure() const noexcept {
  return failed_ ? extra_->failure : std::error_code();
}

}  // namespace gyre::net
