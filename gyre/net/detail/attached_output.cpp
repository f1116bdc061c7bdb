// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/attached_output.hpp>

#include <algorithm>
#include <utility>

namespace gyre::net::detail {
namespace {

std::size_t descriptors_of(const output_attachment& one) noexcept {
  return one.fds.size() + (one.file ? 1 : 0);
}

}  // namespace

void attached_output::add(output_attachment added, std::size_t queued) {
  added.bytes_before = queued - bytes_before_;
  items_.push_back(std::move(added));
  bytes_before_ = queued;
  descriptors_ += descriptors_of(items_.back());
}

void attached_output::remove_first() noexcept {
  descriptors_ -= descriptors_of(items_.front());
  items_.pop_front();
}

void attached_output::clear() noexcept {
  items_.clear();
  bytes_before_ = descriptors_ = 0;
}

void attached_output::consume(std::size_t bytes) noexcept {
  if (items_.empty()) return;
  items_.front().bytes_before -= bytes;
  bytes_before_ -= bytes;
}

std::size_t attached_output::next_bytes() const noexcept {
  const std::size_t next = is_due() ? 1 : 0;
  return next < items_.size() ? items_[next].bytes_before : std::numeric_limits<std::size_t>::max();
}

std::span<iovec> first_bytes(std::span<iovec> pieces, std::size_t bytes) noexcept {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    iovec& piece = pieces[i];
    if (piece.iov_len >= bytes) {
      piece.iov_len = bytes;
      return pieces.first(i + 1);
    }
    bytes -= piece.iov_len;
  }
  return pieces;
}

}  // namespace gyre::net::detail
