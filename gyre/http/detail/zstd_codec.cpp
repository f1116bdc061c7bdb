// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/codec.hpp>

#include <zstd.h>

#include <new>

namespace gyre::http::detail {
namespace {

class zstd_encoder final : public encoder {
 public:
  explicit zstd_encoder(int level) : state_(ZSTD_createCStream()) {
    if (state_ == nullptr) throw std::bad_alloc();
    ZSTD_CCtx_setParameter(state_, ZSTD_c_compressionLevel, level);
  }
  ~zstd_encoder() override { ZSTD_freeCStream(state_); }

  compression_step step(std::span<const std::byte> input, std::span<std::byte> output,
                        compressor::operation action) override {
    ZSTD_inBuffer source{input.data(), input.size(), 0};
    ZSTD_outBuffer target{output.data(), output.size(), 0};
    const std::size_t hint = ZSTD_compressStream2(state_, &target, &source, directive_of(action));
    if (ZSTD_isError(hint) != 0) throw std::bad_alloc();
    const bool takes_all = source.pos == source.size;
    const bool is_done =
        action == compressor::operation::process ? takes_all : takes_all && hint == 0;
    return {.consumed = source.pos, .produced = target.pos, .is_done = is_done};
  }

 private:
  static ZSTD_EndDirective directive_of(compressor::operation action) {
    switch (action) {
      case compressor::operation::process: break;
      case compressor::operation::flush: return ZSTD_e_flush;
      case compressor::operation::finish: return ZSTD_e_end;
    }
    return ZSTD_e_continue;
  }

  ZSTD_CStream* state_;
};

// Decodes zstd. A body may have several frames.
class zstd_decoder final : public decoder {
 public:
  zstd_decoder() : state_(ZSTD_createDStream()) {
    if (state_ == nullptr) throw std::bad_alloc();
    constexpr int max_window_log = 23;  // 2^23 bytes: 8 MiB, the limit of RFC 9659
    ZSTD_DCtx_setParameter(state_, ZSTD_d_windowLogMax, max_window_log);
  }
  ~zstd_decoder() override { ZSTD_freeDStream(state_); }

  std::optional<compression_step> step(std::span<const std::byte> input,
                                       std::span<std::byte> output) override {
    if (is_complete_ && input.empty()) return compression_step{.is_done = true};
    ZSTD_inBuffer source{input.data(), input.size(), 0};
    ZSTD_outBuffer target{output.data(), output.size(), 0};
    const std::size_t hint = ZSTD_decompressStream(state_, &target, &source);
    if (ZSTD_isError(hint) != 0) return std::nullopt;
    is_complete_ = hint == 0;
    return compression_step{
        .consumed = source.pos, .produced = target.pos, .is_done = is_complete_};
  }
  bool is_complete() const noexcept override { return is_complete_; }

 private:
  ZSTD_DStream* state_;
  bool is_complete_ = false;
};

}  // namespace

std::unique_ptr<encoder> make_zstd_encoder(std::optional<int> level) {
  return std::make_unique<zstd_encoder>(level_between(level, 1, 19, 3));
}
std::unique_ptr<decoder> make_zstd_decoder() { return std::make_unique<zstd_decoder>(); }

}  // namespace gyre::http::detail
