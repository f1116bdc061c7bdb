// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/stream_operations.hpp>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <new>
#include <stdexcept>

namespace gyre::io::detail {

std::optional<result> read_until_operation::begin() noexcept {
  for (;;) {
    if (const std::optional<io::result> end = search()) return end;
    const std::optional<io::result> outcome = single_request::begin();
    if (!outcome) return std::nullopt;
    if (const std::optional<io::result> end = take(*outcome)) return end;
  }
}

std::optional<result> read_until_operation::advance(io::result outcome) noexcept {
  if (const std::optional<io::result> end = take(outcome)) return end;
  return begin();
}

std::optional<result> read_until_operation::search() noexcept {
  // The delimiter may begin in bytes that were searched before.
  const std::size_t overlap = delimiter_.empty() ? 0 : delimiter_.size() - 1;
  const std::size_t begin = searched_bytes_ > overlap ? searched_bytes_ - overlap : 0;
  const std::size_t position = buffer_->find(delimiter_, begin);
  searched_bytes_ = buffer_->size();
  const bool is_within = position != input::npos && position + delimiter_.size() <= limit_;
  if (is_within) return io::result::of(position + delimiter_.size());
  if (position == input::npos && searched_bytes_ < limit_) return std::nullopt;
  failure_ = errc::limit_exceeded;
  return io::result::of(0);
}

std::optional<result> read_until_operation::take(io::result outcome) noexcept {
  if (!outcome) return outcome;
  if (outcome.count() == 0) {
    failure_ = errc::unexpected_end;
    return outcome;
  }
  try {
    buffer_->append(data.bytes());
  } catch (const std::length_error&) {
    failure_ = errc::limit_exceeded;
  } catch (const std::bad_alloc&) {
    failure_ = std::make_error_code(std::errc::not_enough_memory);
  }
  data.reset();
  if (failure_) return outcome;
  return std::nullopt;
}

std::optional<result> gather_operation::begin() noexcept {
  for (;;) {
    // Empty pieces are skipped; the kernel refuses more than IOV_MAX pieces.
    while (!rest_.empty() && first_.iov_base == nullptr && rest_.front().iov_len == 0) {
      rest_ = rest_.subspan(1);
    }
    if (rest_.empty()) return io::result::of(sent_bytes_);
    pieces = first_.iov_base != nullptr ? std::span<const iovec>(&first_, 1)
                                        : rest_.first(std::min<std::size_t>(rest_.size(), IOV_MAX));
    const std::optional<io::result> outcome = single_request::begin();
    if (!outcome) return std::nullopt;
    if (!*outcome) return outcome;
    if (take(outcome->count())) return io::result::of(sent_bytes_);
  }
}

std::optional<result> gather_operation::advance(io::result outcome) noexcept {
  if (!outcome) return outcome;
  if (take(outcome.count())) return io::result::of(sent_bytes_);
  return begin();
}

bool gather_operation::take(std::size_t count) noexcept {
  sent_bytes_ += count;
  while (!rest_.empty()) {
    const iovec piece = first_.iov_base != nullptr ? first_ : rest_.front();
    if (count < piece.iov_len) {
      if (count > 0) {
        first_ = {static_cast<std::byte*>(piece.iov_base) + count, piece.iov_len - count};
      }
      break;
    }
    count -= piece.iov_len;
    first_ = {};
    rest_ = rest_.subspan(1);
  }
  return !transfers_all_ || rest_.empty();
}

std::optional<result> send_file_operation::begin() noexcept {
  while (unsent_bytes > 0) {
    const std::optional<io::result> outcome = single_request::begin();
    if (!outcome) return std::nullopt;
    if (!*outcome) return outcome;
    if (take(outcome->count())) break;
  }
  return io::result::of(sent_bytes_);
}

std::optional<result> send_file_operation::advance(io::result outcome) noexcept {
  if (!outcome) return outcome;
  if (take(outcome.count())) return io::result::of(sent_bytes_);
  return begin();
}

}  // namespace gyre::io::detail
