// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/read_frame.hpp>

#include <algorithm>
#include <new>

namespace gyre::net::detail {
namespace {

[[noreturn, gnu::cold]] void throw_no_memory() {
  throw std::system_error(std::make_error_code(std::errc::not_enough_memory),
                          "gyre::net::read_frame");
}

}  // namespace

std::span<std::byte> limited_room(io::buffer& held) {
  constexpr std::size_t least_read = 4096;
  const std::size_t room = held.max_size() - held.size();
  if (room >= io::receive_memory::default_block) return {};
  if (room == 0) {
    throw std::system_error(make_error_code(io::errc::limit_exceeded), "gyre::net::read_frame");
  }
  // As much again as there is, so that a long frame is read by few calls.
  const std::size_t wanted = std::max({least_read, held.size(), held.tail_room()});
  try {
    return held.prepare(std::min(room, wanted));
  } catch (const std::bad_alloc&) {
    throw_no_memory();
  }
}

void append_received(io::buffer& held, std::span<const std::byte> bytes) {
  try {
    held.append(bytes);
  } catch (const std::bad_alloc&) {
    throw_no_memory();
  }
}

}  // namespace gyre::net::detail
