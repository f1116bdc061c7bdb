// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/codec.hpp>

#define ZLIB_CONST  // NOLINT(readability-identifier-naming): zlib names it
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

namespace gyre::http::detail {
namespace {

// zlib's windowBits: the largest window (15), plus 16 for the gzip format.
constexpr int gzip_only = 15 + 16;

uInt to_uint(std::size_t size) {
  return static_cast<uInt>(std::min<std::size_t>(size, std::numeric_limits<uInt>::max()));
}

// Sets the spans as the buffers of `stream` for one call of zlib.
class stream_buffers {
 public:
  stream_buffers(z_stream& stream, std::span<const std::byte> input, std::span<std::byte> output)
      : stream_(stream), input_(to_uint(input.size())), output_(to_uint(output.size())) {
    stream.next_in = reinterpret_cast<const Bytef*>(input.data());
    stream.avail_in = input_;
    stream.next_out = reinterpret_cast<Bytef*>(output.data());
    stream.avail_out = output_;
  }
  compression_step step(bool is_done) const {
    return {.consumed = input_ - stream_.avail_in,
            .produced = output_ - stream_.avail_out,
            .is_done = is_done};
  }

 private:
  const z_stream& stream_;
  uInt input_;
  uInt output_;
};

class gzip_encoder final : public encoder {
 public:
  explicit gzip_encoder(int level) {
    if (deflateInit2(&stream_, level, Z_DEFLATED, gzip_only, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
      throw std::bad_alloc();
    }
  }
  ~gzip_encoder() override { deflateEnd(&stream_); }

  compression_step step(std::span<const std::byte> input, std::span<std::byte> output,
                        compressor::operation action) override {
    const stream_buffers memory(stream_, input, output);
    const bool is_all_input = stream_.avail_in == input.size();
    if (action == compressor::operation::finish && is_all_input) {
      const int result = deflate(&stream_, Z_FINISH);
      return memory.step(result == Z_STREAM_END);
    }
    deflate(&stream_,
            action == compressor::operation::flush && is_all_input ? Z_SYNC_FLUSH : Z_NO_FLUSH);
    return memory.step(is_all_input && stream_.avail_in == 0 && stream_.avail_out != 0);
  }

 private:
  z_stream stream_ = {};
};

// Decodes gzip. Several members (RFC 1952, 2.2) and padding by zero bytes are accepted, as by
// gzip(1).
class gzip_decoder final : public decoder {
 public:
  gzip_decoder() {
    if (inflateInit2(&stream_, gzip_only) != Z_OK) throw std::bad_alloc();
  }
  ~gzip_decoder() override { inflateEnd(&stream_); }

  std::optional<compression_step> step(std::span<const std::byte> input,
                                       std::span<std::byte> output) override {
    if (is_complete_) {
      const auto padding =
          std::ranges::find_if(input, [](std::byte byte) { return byte != std::byte{}; });
      const auto zeros = static_cast<std::size_t>(padding - input.begin());
      if (zeros != 0 || input.empty()) return compression_step{.consumed = zeros, .is_done = true};
      inflateReset(&stream_);
      is_complete_ = false;
    }
    const stream_buffers memory(stream_, input, output);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) return std::nullopt;
    is_complete_ = result == Z_STREAM_END;
    return memory.step(is_complete_);
  }
  bool is_complete() const noexcept override { return is_complete_; }

 private:
  z_stream stream_ = {};
  bool is_complete_ = false;
};

}  // namespace

std::unique_ptr<encoder> make_gzip_encoder(std::optional<int> level) {
  return std::make_unique<gzip_encoder>(level_between(level, 1, 9, 6));
}
std::unique_ptr<decoder> make_gzip_decoder() { return std::make_unique<gzip_decoder>(); }

}  // namespace gyre::http::detail
