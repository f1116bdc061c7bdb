// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/connection_io.hpp>

#include <gyre/io/backend.hpp>
#include <gyre/net/detail/connection_extra.hpp>
#include <gyre/net/detail/from_loop.hpp>
#include <gyre/net/detail/system_sockets.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace gyre::net::detail {

// --- Memory ---

connection_io::connection_io(connection_group& group, socket_of_connection own_socket,
                             std::uint64_t id, const endpoint& peer)
    // On a Unix socket, recv(2) stops after bytes that came with descriptors, so a short read does
    // not mean that the socket is empty.
    : io::handle(own_socket.fd,
                 own_socket.kind.value_or(peer.is_ip() ? io::handle_kind::stream_socket
                                                       : io::handle_kind::socket)),
      connection_closing(group.idle_clock()),
      peer_form_(form_of(peer)),
      peer_port_(peer.port()),
      group_(&group),
      id_(id) {
  static_assert(sizeof(connection_io) == 112, "each idle connection has one");
  if (peer_form_ == peer_form::kernel) return;
  const ip_address address = peer.address();
  if (peer_form_ == peer_form::v6) {
    new (this + 1) ip_address(address);
  } else {
    std::ranges::copy(address.unmapped().bytes(), peer_v4_.begin());
  }
}

connection_io::~connection_io() {
  if (extra_ != nullptr && extra_->control != nullptr) {
    extra_->control->connection = nullptr;
    extra_->control->drop();
  }
  if (has_layer_) {
    delete static_cast<layered_extra*>(extra_);
  } else {
    delete extra_;
  }
}

void connection_io::set_layer(std::unique_ptr<layer> protocol) {
  extra_ = new layered_extra(std::move(protocol));
  has_layer_ = true;
}

connection_io::peer_form connection_io::form_of(const endpoint& peer) noexcept {
  if (!peer.is_ip()) return peer_form::kernel;
  const ip_address address = peer.address();
  if (address.is_v4()) return peer_form::v4;
  return address.is_v4_mapped() && address.scope() == 0 ? peer_form::mapped_v4 : peer_form::v6;
}

std::size_t connection_io::bytes_with(peer_form form) noexcept {
  static_assert(sizeof(connection_io) % alignof(ip_address) == 0 && sizeof(ip_address) <= 32);
  return sizeof(connection_io) + (form == peer_form::v6 ? sizeof(ip_address) : 0);
}

endpoint connection_io::peer_endpoint() const {
  switch (peer_form_) {
    case peer_form::v4: return endpoint(ip_address(peer_v4_), peer_port_);
    case peer_form::mapped_v4: {
      ip_address::v6_bytes mapped_bytes{};
      mapped_bytes[10] = mapped_bytes[11] = 0xff;
      std::ranges::copy(peer_v4_, mapped_bytes.begin() + 12);
      return endpoint(ip_address(mapped_bytes), peer_port_);
    }
    case peer_form::v6:
      return endpoint(*std::launder(reinterpret_cast<const ip_address*>(this + 1)), peer_port_);
    case peer_form::kernel: break;
  }
  return is_open() ? socket_ref(fd()).peer_endpoint() : endpoint();
}

endpoint connection_io::local_endpoint() const {
  return is_open() ? socket_ref(fd()).local_endpoint() : endpoint();
}

connection_extra& connection_io::extra() {
  if (extra_ == nullptr) extra_ = new connection_extra;
  return *extra_;
}

connection_backlog& connection_io::make_backlog() {
  auto& backlog = extra().backlog;
  if (backlog == nullptr) backlog = std::make_unique<connection_backlog>(*this);
  return *backlog;
}

// --- Counts ---

event_loop& connection_io::loop() const noexcept { return group_->loop(); }

// Returns the number of sent bytes that the peer has not acknowledged; a FIN counts as one. A slow
// peer may leave many.
std::uint64_t connection_io::bytes_in_kernel() const noexcept {
  return system::unacknowledged_bytes(fd());
}

bool connection_io::note_progress() noexcept {
  auto moved_bytes = static_cast<std::uint32_t>(bytes_received_ + bytes_sent_);
  // Bytes that the peer has taken stay taken, so that for most connections the check needs no
  // system call.
  if (moved_bytes != moved_bytes_)
    moved_bytes = static_cast<std::uint32_t>(bytes_received_ + bytes_taken_by_peer());
  return std::exchange(moved_bytes_, moved_bytes) != moved_bytes;
}

bool connection_io::update_held_bytes() noexcept {
  connection_backlog* const backlog = backlog_of(*this);
  if (backlog == nullptr) return true;
  std::size_t bytes = 0;
  if (is_open()) {
    const attached_output* const attachments = backlog->attachments.get();
    const std::size_t descriptors = attachments == nullptr ? 0 : attachments->descriptor_count();
    bytes = pending_output() + backlog->rest.size() + backlog->held_by_program +
            group_->held_as_descriptors(descriptors) +
            (has_layer_ ? layer_of(*this).protocol().unread().size() : 0);
  }
  const std::size_t earlier_bytes = std::exchange(backlog->counted_bytes, bytes);
  return group_->count_held(earlier_bytes, bytes);
}

bool connection_io::count_memory(std::size_t bytes) {
  if (!is_open()) return false;
  if (bytes == 0 && backlog_of(*this) == nullptr) return true;
  make_backlog().held_by_program = bytes;
  if (update_held_bytes()) return true;
  abort(io::errc::memory_limit);
  return false;
}

// --- Calls of the loop ---

void connection_io::begin() {
  from_loop(*this, [this] {
    prepare_for_descriptors();
    start_receiving();
    if (auto& handler = group_->handlers().connected) handler(face_of(*this));
    const std::span<const std::byte> early_bytes = group_->take_early(*this);
    if (!early_bytes.empty() && is_open()) deliver_early(early_bytes);
    if (has_layer_ && is_open()) {  // bytes may have come with the handshake
      const std::size_t bytes = layer_of(*this).protocol().unread().size();
      count_received(bytes);
      if (bytes > 0) group_->count_received(bytes);
      receive_layered({});
    }
  });
}

void connection_io::schedule(due_calls calls) noexcept {
  due_calls_.insert(calls);
  if (is_scheduled_) return;
  is_scheduled_ = true;
  group_->schedule_call(*this);
}

void connection_io::on_scheduled() {
  is_scheduled_ = false;
  from_loop(*this, [this] { run_due(); });
}

void connection_io::run_due() {
  connection_handlers& handlers = group_->handlers();
  const due_calls calls = std::exchange(due_calls_, {});
  // Each handler may end the connection, or make the next call unnecessary.
  const auto is_still_due = [this, calls](due_call call) {
    return calls.has(call) && phase() == connection_phase::open;
  };
  if (calls.has(due_call::message) && is_open()) deliver_rest();
  if (calls.has(due_call::readable) && is_open() && !reading_paused() && !reading()) {
    receive_with_descriptors();
  }
  if (is_still_due(due_call::high_water) && handlers.high_water) {
    handlers.high_water(face_of(*this), pending_output());
  }
  if (is_still_due(due_call::low_water) && handlers.low_water) handlers.low_water(face_of(*this));
  if (is_still_due(due_call::write_complete) && pending_output() == 0 && handlers.write_complete) {
    handlers.write_complete(face_of(*this));
  }
}

}  // namespace gyre::net::detail
