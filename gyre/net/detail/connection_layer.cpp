// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/connection_layer.hpp>

#include <gyre/io/detail/scratch_buffer.hpp>
#include <gyre/io/detail/system_files.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/detail/layer_limits.hpp>

#include <algorithm>
#include <cstdint>

namespace gyre::net::detail {

using io::detail::scratch_buffer;

std::error_code connection_layer::write(std::span<const std::byte> plain_bytes,
                                        io::buffer& output) {
  protocol_->send_to(output);
  if (protocol_->write(plain_bytes) != layer::status::failed) return {};
  return protocol_->error();
}

std::error_code connection_layer::cut_off() const noexcept {
  const std::error_code reason = protocol_->end_of_bytes();
  return reason ? reason : io::errc::unexpected_end;
}

std::error_code connection_layer::seal_next(connection_backlog& backlog, io::backend& io, bool ends,
                                            bool& has_progressed) {
  if (!replies.empty()) {
    sealed_output = std::exchange(replies, io::buffer());
    has_progressed = true;
    return {};
  }
  if (!may_write()) return {};
  if (sealed_output.capacity() == 0) sealed_output = scratch_buffer::take();
  if (backlog.attachment_is_due()) {
    has_progressed = true;
    return seal_file_part(*backlog.attachments, io);
  }
  if (backlog.output.empty()) {
    protocol_->send_to(sealed_output);
    has_progressed = ends && !protocol_->has_announced_end();
    if (has_progressed) protocol_->end();
    return {};
  }
  has_progressed = true;
  scratch_buffer buffer;
  record_parts parts(backlog.next_output(), *buffer, writable_at_once(io));
  std::size_t sealed_bytes = 0;
  for (auto part = parts.next(); !part.empty(); part = parts.next()) {
    if (const auto error = write(part, sealed_output)) return error;
    sealed_bytes += part.size();
  }
  backlog.consume_output(sealed_bytes);
  return {};
}

std::error_code connection_layer::seal_file_part(attached_output& attachments, io::backend& io) {
  output_attachment& part = attachments.first();
  const std::size_t size = std::min(part.unsent_bytes, max_file_part_size);
  scratch_buffer plain_bytes;
  const io::result count =
      io::detail::system::read_at(part.file.get(), plain_bytes->prepare(size).first(size),
                                  static_cast<std::uint64_t>(part.offset));
  if (!count) return count.error();
  if (count.count() == 0) return io::errc::unexpected_end;  // the file has shrunk
  plain_bytes->commit(count.count());
  io.charge(plain_bytes->size());
  part.offset += static_cast<::off_t>(count.count());
  part.unsent_bytes -= plain_bytes->size();
  if (part.unsent_bytes == 0) attachments.remove_first();
  return write(plain_bytes->bytes(), sealed_output);
}

}  // namespace gyre::net::detail
