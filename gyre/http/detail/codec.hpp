// SPDX-License-Identifier: Apache-2.0
// encoder, decoder: interfaces of compressor and decompressor to the compression libraries.
#pragma once

#include <gyre/http/compression.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

namespace gyre::http::detail {

class encoder {
 public:
  encoder() = default;
  encoder(const encoder&) = delete;
  encoder& operator=(const encoder&) = delete;
  virtual ~encoder() = default;
  virtual compression_step step(std::span<const std::byte> input, std::span<std::byte> output,
                                compressor::operation action) = 0;
};

class decoder {
 public:
  decoder() = default;
  decoder(const decoder&) = delete;
  decoder& operator=(const decoder&) = delete;
  virtual ~decoder() = default;
  /// Unpacks a part of `input` into `output`. Returns nothing if the data are malformed.
  virtual std::optional<compression_step> step(std::span<const std::byte> input,
                                               std::span<std::byte> output) = 0;
  /// Whether the data end with the consumed input.
  virtual bool is_complete() const noexcept = 0;
};

/// Each of these functions makes the encoder or decoder of one coding.
///
/// Errors: std::bad_alloc; for encoders, std::invalid_argument for a level that the coding does not
/// have.
std::unique_ptr<encoder> make_gzip_encoder(std::optional<int> level);
std::unique_ptr<decoder> make_gzip_decoder();
std::unique_ptr<encoder> make_brotli_encoder(std::optional<int> level);
std::unique_ptr<decoder> make_brotli_decoder();
std::unique_ptr<encoder> make_zstd_encoder(std::optional<int> level);
std::unique_ptr<decoder> make_zstd_decoder();

/// Returns `level`, or `default_level` if there is none. Throws std::invalid_argument for a level
/// below `min_level` or above `max_level`.
int level_between(std::optional<int> level, int min_level, int max_level, int default_level);

}  // namespace gyre::http::detail
