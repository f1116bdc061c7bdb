// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/framing.hpp>

#include <gyre/base/endian.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/framed.hpp>
#include <gyre/net/read_frame.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>

namespace gyre::net {
namespace {

template <class T>
T load(const std::byte* bytes, std::endian order) noexcept {
  return order == std::endian::big ? load_be<T>(bytes) : load_le<T>(bytes);
}

std::uint64_t load_length(const std::byte* bytes, const length_prefix_options& format) noexcept {
  switch (format.width) {
    case 1: return load<std::uint8_t>(bytes, format.order);
    case 2: return load<std::uint16_t>(bytes, format.order);
    case 4: return load<std::uint32_t>(bytes, format.order);
    default: return load<std::uint64_t>(bytes, format.order);
  }
}

using length_bytes = std::array<std::byte, sizeof(std::uint64_t)>;

// Returns the bytes of `length`; the first `format.width` bytes are used.
length_bytes store_length(std::uint64_t length, const length_prefix_options& format) noexcept {
  length_bytes bytes{};
  if (format.order == std::endian::little) {
    store_le(bytes.data(), length);
  } else {
    store_be(bytes.data(), length << (8 * (bytes.size() - format.width)));
  }
  return bytes;
}

// Returns memory for `size` bytes after those of `output`. If `payload` is a part of `output`,
// moves `payload` with the bytes of `output`.
std::span<std::byte> prepare(io::buffer& output, std::size_t size,
                             std::span<const std::byte>& payload) {
  const std::less<> is_before;
  const std::span<const std::byte> old_bytes = output.bytes();
  const bool is_part = !is_before(payload.data(), old_bytes.data()) &&
                       is_before(payload.data(), old_bytes.data() + old_bytes.size());
  const std::ptrdiff_t offset = is_part ? payload.data() - old_bytes.data() : 0;
  const std::span<std::byte> room = output.prepare(size);
  if (is_part) payload = output.bytes().subspan(static_cast<std::size_t>(offset), payload.size());
  return room;
}

std::uint64_t longest(std::size_t width) noexcept {
  return std::numeric_limits<std::uint64_t>::max() >> (64 - 8 * width);
}

// Returns the length to write before a payload.
std::uint64_t encoded_length(std::size_t payload, const length_prefix_options& format) {
  const std::size_t prefix_size = format.counts_itself ? format.width : 0;
  if (payload > format.maximum || payload > longest(format.width) ||
      prefix_size > longest(format.width) - payload) {
    detail::fail(io::errc::frame_too_long, "gyre::net::length_prefixed::encode");
  }
  return payload + prefix_size;
}

}  // namespace

length_prefixed::length_prefixed(options format) : format_(format) {
  detail::require(format.width <= 8 && std::has_single_bit(format.width),
                  "length_prefixed: the width is 1, 2, 4 or 8 bytes");
}

decoded_frame length_prefixed::decode(io::input& input) const noexcept {
  if (input.size() < format_.width) return std::nullopt;
  std::uint64_t length = load_length(input.data(), format_);
  if (format_.counts_itself) {
    if (length < format_.width) return detail::failure(io::errc::bad_frame_length);
    length -= format_.width;
  }
  if (length > format_.maximum) return detail::failure(io::errc::frame_too_long);
  if (length > input.size() - format_.width) return std::nullopt;
  input.consume(format_.width);
  return input.take(static_cast<std::size_t>(length));
}

void length_prefixed::encode(io::buffer& output, std::span<const std::byte> payload) const {
  const length_bytes length = store_length(encoded_length(payload.size(), format_), format_);
  const std::span<std::byte> frame = prepare(output, format_.width + payload.size(), payload);
  std::memcpy(frame.data(), length.data(), format_.width);
  if (!payload.empty()) std::memcpy(frame.data() + format_.width, payload.data(), payload.size());
  output.commit(frame.size());
}

void length_prefixed::encode_in_place(io::buffer& payload) const {
  const length_bytes length = store_length(encoded_length(payload.size(), format_), format_);
  payload.prepend(std::span(length).first(format_.width));
}

delimited::delimited(std::string delimiter, std::size_t maximum)
    : delimiter_(std::move(delimiter)), maximum_(maximum) {
  detail::require(!delimiter_.empty(), "delimited: the delimiter is empty");
}

decoded_frame delimited::decode(io::input& input) noexcept {
  const std::size_t total = input.size();
  // A delimiter that begins after the maximum is too late, so the search ends there.
  const bool is_too_long = total > maximum_ && total - maximum_ >= delimiter_.size();
  const io::input head(input.bytes().first(is_too_long ? maximum_ + delimiter_.size() : total));
  const std::size_t end = head.find(delimiter_, std::min(searched_bytes_, head.size()));
  if (end == io::input::npos) {
    searched_bytes_ = head.size() - std::min(head.size(), delimiter_.size() - 1);
    if (is_too_long) return detail::failure(io::errc::frame_too_long);
    return std::nullopt;
  }
  searched_bytes_ = 0;
  const std::span<const std::byte> frame = input.take(end);
  input.consume(delimiter_.size());
  return frame;
}

void delimited::encode(io::buffer& output, std::span<const std::byte> payload) const {
  if (payload.size() > maximum_)
    detail::fail(io::errc::frame_too_long, "gyre::net::delimited::encode");
  const std::span<std::byte> frame = prepare(output, payload.size() + delimiter_.size(), payload);
  if (!payload.empty()) std::memcpy(frame.data(), payload.data(), payload.size());
  std::memcpy(frame.data() + payload.size(), delimiter_.data(), delimiter_.size());
  if (io::input(frame).find(delimiter_) != payload.size()) {
    detail::fail(std::errc::invalid_argument, "delimiter in the payload of a delimited frame");
  }
  output.commit(frame.size());
}

fixed::fixed(std::size_t size) : size_(size) {
  detail::require(size > 0, "fixed: frames of no bytes");
}

decoded_frame fixed::decode(io::input& input) const noexcept {
  if (input.size() < size_) return std::nullopt;
  return input.take(size_);
}

void fixed::encode(io::buffer& output, std::span<const std::byte> payload) const {
  if (payload.size() != size_) detail::fail(io::errc::wrong_frame_size, "gyre::net::fixed::encode");
  output.append(payload);
}

namespace detail {

std::span<std::byte> prepare_within_limit(io::buffer& buffer) {
  constexpr std::size_t min_read_size = 4096;
  const std::size_t space = buffer.max_size() - buffer.size();
  if (space >= io::receive_memory::default_block) return {};
  if (space == 0) {
    throw std::system_error(make_error_code(io::errc::limit_exceeded), "gyre::net::read_frame");
  }
  // Each read doubles the buffer's content, so that long frames take few calls.
  const std::size_t size = std::max({min_read_size, buffer.size(), buffer.tail_room()});
  try {
    return buffer.prepare(std::min(space, size));
  } catch (const std::bad_alloc&) {
    fail(std::errc::not_enough_memory, "gyre::net::read_frame");
  }
}

void append_received(io::buffer& buffer, std::span<const std::byte> bytes) {
  try {
    buffer.append(bytes);
  } catch (const std::bad_alloc&) {
    fail(std::errc::not_enough_memory, "gyre::net::read_frame");
  }
}

task<> write_buffer(io::stream& sink, io::buffer& source) {
  while (!source.empty()) {
    const std::size_t count = co_await sink.write_some(source.bytes());
    source.consume(count);
  }
}

void release_memory(io::buffer& buffer) noexcept {
  constexpr std::size_t max_kept = 4096;
  if (buffer.empty() && buffer.capacity() > max_kept) buffer = io::buffer();
}

}  // namespace detail
}  // namespace gyre::net
