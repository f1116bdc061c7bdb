// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/codec.hpp>

#include <brotli/decode.h>
#include <brotli/encode.h>

#include <cstdint>
#include <new>

namespace gyre::http::detail {
namespace {

class brotli_encoder final : public encoder {
 public:
  explicit brotli_encoder(int level)
      : state_(BrotliEncoderCreateInstance(nullptr, nullptr, nullptr)) {
    if (state_ == nullptr) throw std::bad_alloc();
    constexpr std::uint32_t window = 19;  // 512 KiB: a larger one costs memory and saves little
    BrotliEncoderSetParameter(state_, BROTLI_PARAM_QUALITY, static_cast<std::uint32_t>(level));
    BrotliEncoderSetParameter(state_, BROTLI_PARAM_LGWIN, window);
  }
  ~brotli_encoder() override { BrotliEncoderDestroyInstance(state_); }

  compression_step step(std::span<const std::byte> input, std::span<std::byte> output,
                        compressor::operation action) override {
    std::size_t input_left = input.size(), output_left = output.size();
    auto next_in = reinterpret_cast<const std::uint8_t*>(input.data());
    auto next_out = reinterpret_cast<std::uint8_t*>(output.data());
    if (!BrotliEncoderCompressStream(state_, operation_of(action), &input_left, &next_in,
                                     &output_left, &next_out, nullptr)) {
      throw std::bad_alloc();
    }
    const bool has_more = BrotliEncoderHasMoreOutput(state_) != BROTLI_FALSE;
    const bool is_done = action == compressor::operation::finish
                             ? BrotliEncoderIsFinished(state_) != BROTLI_FALSE
                             : input_left == 0 && !has_more;
    return {.consumed = input.size() - input_left,
            .produced = output.size() - output_left,
            .is_done = is_done};
  }

 private:
  static BrotliEncoderOperation operation_of(compressor::operation action) {
    switch (action) {
      case compressor::operation::process: break;
      case compressor::operation::flush: return BROTLI_OPERATION_FLUSH;
      case compressor::operation::finish: return BROTLI_OPERATION_FINISH;
    }
    return BROTLI_OPERATION_PROCESS;
  }

  BrotliEncoderState* state_;
};

class brotli_decoder final : public decoder {
 public:
  brotli_decoder() : state_(BrotliDecoderCreateInstance(nullptr, nullptr, nullptr)) {
    if (state_ == nullptr) throw std::bad_alloc();
  }
  ~brotli_decoder() override { BrotliDecoderDestroyInstance(state_); }

  std::optional<compression_step> step(std::span<const std::byte> input,
                                       std::span<std::byte> output) override {
    if (is_complete_) {
      if (!input.empty()) return std::nullopt;
      return compression_step{.is_done = true};
    }
    std::size_t input_left = input.size(), output_left = output.size();
    auto next_in = reinterpret_cast<const std::uint8_t*>(input.data());
    auto next_out = reinterpret_cast<std::uint8_t*>(output.data());
    const BrotliDecoderResult result = BrotliDecoderDecompressStream(
        state_, &input_left, &next_in, &output_left, &next_out, nullptr);
    if (result == BROTLI_DECODER_RESULT_ERROR) {
      const BrotliDecoderErrorCode error = BrotliDecoderGetErrorCode(state_);
      const bool no_memory = error <= BROTLI_DECODER_ERROR_ALLOC_CONTEXT_MODES &&
                             error >= BROTLI_DECODER_ERROR_ALLOC_BLOCK_TYPE_TREES;
      if (no_memory) throw std::bad_alloc();
      return std::nullopt;
    }
    is_complete_ = result == BROTLI_DECODER_RESULT_SUCCESS;
    return compression_step{.consumed = input.size() - input_left,
                            .produced = output.size() - output_left,
                            .is_done = is_complete_};
  }
  bool is_complete() const noexcept override { return is_complete_; }

 private:
  BrotliDecoderState* state_;
  bool is_complete_ = false;
};

}  // namespace

std::unique_ptr<encoder> make_brotli_encoder(std::optional<int> level) {
  return std::make_unique<brotli_encoder>(level_between(level, 0, 11, 4));
}
std::unique_ptr<decoder> make_brotli_decoder() { return std::make_unique<brotli_decoder>(); }

}  // namespace gyre::http::detail
