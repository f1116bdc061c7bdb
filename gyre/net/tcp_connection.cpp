// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/tcp_connection.hpp>

#include <gyre/base/error.hpp>
#include <gyre/base/slab.hpp>
#include <gyre/io/detail/system_files.hpp>
#include <gyre/net/connection_options.hpp>
#include <gyre/net/detail/connection_extra.hpp>
#include <gyre/net/detail/connection_group.hpp>
#include <gyre/net/detail/errors.hpp>

#include <atomic>
#include <cerrno>
#include <new>

namespace gyre::net {
namespace detail {

tcp_connection& face_of(connection_io& connection) noexcept {
  return static_cast<tcp_connection&>(connection);
}

connection_io* new_connection(connection_group& group, socket_of_connection own_socket,
                              std::uint64_t id, const endpoint& peer,
                              std::unique_ptr<layer> protocol) {
  static_assert(sizeof(tcp_connection) == sizeof(connection_io));
  void* const memory = slab_allocate(connection_io::bytes_for(peer));
  auto* const connection = new (memory) tcp_connection(group, own_socket, id, peer);
  try {
    if (protocol != nullptr) connection->set_layer(std::move(protocol));
  } catch (...) {
    delete_connection(*connection);
    throw;
  }
  return connection;
}

void delete_connection(connection_io& connection) noexcept {
  const std::size_t bytes = connection.bytes();
  tcp_connection& face = face_of(connection);
  face.~tcp_connection();
  slab_deallocate(&face, bytes);
}

}  // namespace detail

// Throws unless the file has all bytes that the call promises to the peer.
void tcp_connection::check_file(int file, std::uint64_t offset, std::uint64_t count) {
  namespace system = io::detail::system;
  const auto status = system::value_or_throw(system::status_of(file, STATX_TYPE | STATX_SIZE),
                                             "tcp_connection::send_file");
  if (!S_ISREG(status.stx_mode)) {
    gyre::detail::throw_system_error(EINVAL, "tcp_connection::send_file: not a regular file");
  }
  if (offset > status.stx_size || count > status.stx_size - offset) {
    throw std::system_error(io::errc::unexpected_end, "tcp_connection::send_file");
  }
}

bool tcp_connection::send_file(unique_fd file, std::uint64_t offset, std::uint64_t count) {
  check_file(file.get(), offset, count);
  return connection_io::send_file(std::move(file), offset, count);
}

released_connection tcp_connection::release(std::span<const std::byte> unconsumed_bytes) {
  if (!can_send()) throw std::system_error(io::errc::not_open, "tcp_connection::release");
  if (pending_output() > 0 || (has_layer() && !detail::layer_of(*this).may_write())) {
    gyre::detail::throw_system_error(EINPROGRESS, "tcp_connection::release");
  }
  released_connection result{.socket = unique_fd(), .peer = peer_endpoint()};
  try {
    take_arrivals(unconsumed_bytes, result.received);
  } catch (const std::bad_alloc&) {
    abort(detail::no_memory());  // a part of the bytes may be lost
    throw;
  }
  result.socket = leave({});
  if (has_layer()) result.layer = detail::layer_of(*this).take_protocol();
  return result;
}

const layer* tcp_connection::layer() const noexcept {
  return has_layer() ? detail::layer_of(*this).protocol_or_null() : nullptr;
}

move_only_any& tcp_connection::context() { return extra().context; }
move_only_any* tcp_connection::attached_context() noexcept {
  detail::connection_extra* const extra = existing_extra();
  return extra == nullptr ? nullptr : &extra->context;
}

tcp_connection_ref tcp_connection::ref() {
  detail::connection_control*& control = extra().control;
  if (control == nullptr) {
    control = new detail::connection_control(*this, loop(), group().options().output_limit);
    // relaxed: no other thread has the object yet.
    control->is_alive.store(is_open(), std::memory_order_relaxed);
  }
  return tcp_connection_ref(*control);
}

}  // namespace gyre::net
