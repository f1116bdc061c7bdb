// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/attached_output.hpp>

#include <gyre/net/detail/message_with_fds.hpp>

#include <algorithm>
#include <array>

namespace gyre::net::detail {

void attached_output::add(output_attachment attachment, std::size_t queued_bytes) {
  attachment.bytes_before = queued_bytes - bytes_before_;
  items_.push_back(std::move(attachment));
  bytes_before_ = queued_bytes;
  descriptors_ += items_.back().descriptor_count();
}

io::request& attached_output::next_file_part() noexcept {
  const output_attachment& part = first();
  file_part_.file = part.file.get();
  file_part_.offset = part.offset;
  file_part_.unsent_bytes = part.unsent_bytes;
  return file_part_;
}

bool attached_output::take_file_part(std::size_t bytes) noexcept {
  output_attachment& part = first();
  part.offset += static_cast<::off_t>(bytes);
  part.unsent_bytes -= bytes;
  if (part.unsent_bytes > 0) return false;
  remove_first();
  return true;
}

io::result attached_output::send_descriptors(io::handle& socket, io::backend& io,
                                             std::span<iovec> pieces) noexcept {
  const std::vector<unique_fd>& fd_owners = first().fds;
  std::array<int, message_with_fds::max_fds> fds;
  std::ranges::transform(fd_owners, fds.begin(), &unique_fd::get);
  message_with_fds message(pieces);
  message.attach(std::span(fds).first(fd_owners.size()));
  io::send_message_request request(socket, message.header, nullptr);
  const io::result outcome = io.attempt(request);
  if (outcome) remove_first();
  return outcome;
}

}  // namespace gyre::net::detail
