// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/message_deflate.hpp>

#define ZLIB_CONST  // NOLINT(readability-identifier-naming): zlib names it
#include <zlib.h>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <limits>
#include <new>

namespace gyre::http::detail {
namespace {

// The maximum number of unpacked bytes of one call of zlib.
constexpr std::size_t inflate_step = std::size_t{16} << 10;
constexpr std::size_t min_step = 512;
// With less room, a flush may write its marker twice (zlib.h).
constexpr std::size_t min_room = 64;
constexpr int default_memory_level = 8;

// zlib allocates by operator new, so that a program's own counts and limits apply.
void* allocate_for_zlib(void*, uInt count, uInt size) {
  return ::operator new(std::size_t{count} * size, std::nothrow);
}
void release_for_zlib(void*, void* memory) { ::operator delete(memory); }

}  // namespace

struct message_deflater::state {
  z_stream stream = {};
};

message_deflater::message_deflater(int level, unsigned window_bits)
    : level_(level), window_bits_(window_bits), state_(std::make_unique<state>()) {
  state_->stream.zalloc = allocate_for_zlib;
  state_->stream.zfree = release_for_zlib;
  // zlib compresses no raw data with a window of 256 bytes. With one of 512 it refers back at most
  // 512 - 262 bytes, as it keeps 262 bytes for its look-ahead: so 9 bits do for 8.
  const int bits = static_cast<int>(std::max(window_bits, 9U));
  // The hash tables are as large as the window, which for 15 bits is zlib's default.
  const int memory_level = std::clamp(bits - 7, 1, default_memory_level);
  if (deflateInit2(&state_->stream, level, Z_DEFLATED, -bits, memory_level, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    throw std::bad_alloc();
  }
}

message_deflater::~message_deflater() { deflateEnd(&state_->stream); }

bool message_deflater::step(std::span<const std::byte>& input, io::buffer& output,
                            std::size_t room) {
  z_stream& stream = state_->stream;
  const std::size_t begin = output.size();
  room = std::max(room, min_room);
  output.append(std::span(tail_).first(held_tail_size_));
  held_tail_size_ = 0;
  bool is_complete = false;
  while (!is_complete && output.size() - begin + min_room <= room + tail_size) {
    const std::span<std::byte> free_memory =
        output.prepare(room + tail_size - (output.size() - begin));
    stream.next_in = reinterpret_cast<const Bytef*>(input.data());
    stream.avail_in =
        static_cast<uInt>(std::min<std::size_t>(input.size(), std::numeric_limits<uInt>::max()));
    const bool is_all_input = stream.avail_in == input.size();
    const std::size_t offered_bytes = stream.avail_in;
    stream.next_out = reinterpret_cast<Bytef*>(free_memory.data());
    stream.avail_out = static_cast<uInt>(free_memory.size());
    deflate(&stream, is_all_input ? Z_SYNC_FLUSH : Z_NO_FLUSH);
    output.commit(free_memory.size() - stream.avail_out);
    input = input.subspan(offered_bytes - stream.avail_in);
    is_complete = is_all_input && stream.avail_in == 0 && stream.avail_out != 0;
  }
  const std::size_t produced_bytes = output.size() - begin;
  const std::size_t tail_bytes = std::min(produced_bytes, tail_size);
  if (!is_complete) {
    std::ranges::copy(output.bytes().last(tail_bytes), tail_.begin());
    held_tail_size_ = tail_bytes;
  }
  output.drop_last(tail_bytes);
  return is_complete;
}

void message_deflater::reset() noexcept {
  deflateReset(&state_->stream);
  held_tail_size_ = 0;
}

struct message_inflater::state {
  z_stream stream = {};
};

message_inflater::message_inflater(unsigned window_bits)
    : window_bits_(window_bits), state_(std::make_unique<state>()) {
  state_->stream.zalloc = allocate_for_zlib;
  state_->stream.zfree = release_for_zlib;
  if (inflateInit2(&state_->stream, -static_cast<int>(window_bits)) != Z_OK) {
    throw std::bad_alloc();
  }
}

message_inflater::~message_inflater() { inflateEnd(&state_->stream); }

void message_inflater::commit(std::size_t count) noexcept {
  state_->stream.next_in = reinterpret_cast<const Bytef*>(input_.data());
  state_->stream.avail_in = static_cast<uInt>(count);
}

void message_inflater::end_message() noexcept {
  constexpr std::array<unsigned char, 4> tail{0, 0, 0xff, 0xff};
  std::ranges::transform(tail, input_.begin(), [](unsigned char byte) { return std::byte{byte}; });
  commit(tail.size());
}

message_inflater::status message_inflater::step(io::buffer& output, std::size_t max_size) {
  z_stream& stream = state_->stream;
  for (;;) {
    if (output.size() >= max_size) return status::is_full;
    const std::size_t expected_size = std::max<std::size_t>(min_step, 4 * stream.avail_in);
    const std::size_t room = std::min({max_size - output.size(), inflate_step, expected_size});
    const std::span<std::byte> free_memory = output.prepare(room);
    stream.next_out = reinterpret_cast<Bytef*>(free_memory.data());
    stream.avail_out = static_cast<uInt>(room);
    const int result = inflate(&stream, Z_SYNC_FLUSH);
    output.commit(room - stream.avail_out);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result == Z_STREAM_END) {
      // A message may contain a block that is marked as the last one (RFC 7692, 7.2.3.4). Later
      // blocks may refer back to it, so the window stays.
      inflateResetKeep(&stream);
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      return status::failed;
    }
    if (stream.avail_out != 0 && stream.avail_in == 0) return status::wants_input;
  }
}

bool message_inflater::is_at_end() const noexcept {
  constexpr int after_block = 128;  // see data_type at inflate() in zlib.h
  return state_->stream.avail_in == 0 && (state_->stream.data_type & after_block) != 0;
}

void message_inflater::reset() noexcept { inflateReset(&state_->stream); }

}  // namespace gyre::http::detail
