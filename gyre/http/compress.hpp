// SPDX-License-Identifier: Apache-2.0
// compress: a middleware that compresses the bodies of responses.
//
//     server.use(gyre::http::compress({.min_size = 2048}));
#pragma once

#include <gyre/http/content_coding.hpp>
#include <gyre/http/handler.hpp>

#include <cstddef>
#include <vector>

namespace gyre::http {

/// Options of compress().
struct compress_options {
  /// The codings that the server may use, the preferred one first.
  std::vector<content_coding> codings = {content_coding::br, content_coding::zstd,
                                         content_coding::gzip};
  /// Whole bodies smaller than this, in bytes, are sent uncompressed.
  std::size_t min_size = 1024;
  /// Whole bodies larger than this, in bytes, are compressed on io::blocking_pool() instead of the
  /// loop.
  std::size_t offload_size = std::size_t{64} << 10;
  /// Maximum number of streams that are compressed at the same time, because each holds a
  /// compressor; further streams are sent uncompressed.
  std::size_t max_streams = 64;
};

/// Compresses whole and streamed bodies with the best coding that the client accepts
/// (negotiate_coding()): adds Content-Encoding and `Vary: Accept-Encoding`, and makes a strong ETag
/// weak. Each write of a stream is flushed at once, so write large pieces.
///
/// These responses are not compressed:
/// - types that compress little (is_compressible()), and events (text/event-stream);
/// - files, for which file_server_options::precompressed exists;
/// - responses with Content-Encoding, Content-Range, a digest or `Cache-Control: no-transform`, and
///   responses of status 206;
/// - bodies that would not become smaller.
///
/// A response to HEAD that has a Content-Length and no body loses its Content-Length if the body of
/// the GET response may be compressed.
///
/// Do not use it for pages that contain both a secret and a text from the request: the compressed
/// size would reveal the secret step by step (BREACH).
///
/// Thread-safety: the loops of a server may call it at the same time; they share max_streams.
/// Errors: compress() throws std::invalid_argument if the codings contain content_coding::identity.
/// Complexity: see compressor for its memory. Compressing 64 KiB takes the loop some milliseconds.
[[nodiscard]] middleware compress(compress_options options = {});

}  // namespace gyre::http
