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
  std::vector<content_coding> codings = {content_coding::br, content_coding::zstd,
                                         content_coding::gzip};
  /// Smaller whole bodies are sent as they are.
  std::size_t min_size = 1024;
  /// Larger whole bodies are compressed on io::blocking_pool(), in place of the loop.
  std::size_t offload_size = std::size_t{64} << 10;
  /// Streams that are compressed at a time, as each holds a compressor; further ones are sent as
  /// they are.
  std::size_t max_streams = 64;
};

/// Compresses whole and streamed bodies by the best coding that the client accepts
/// (negotiate_coding()): adds Content-Encoding and `Vary: Accept-Encoding`, and makes a strong ETag
/// weak. Each write of a stream is sent at once, so write large pieces.
///
/// It leaves alone: types that compress little (is_compressible()), events (text/event-stream),
/// files, which file_server_options::precompressed serves; responses with Content-Encoding,
/// Content-Range, a digest or `Cache-Control: no-transform`, of status 206, or that would not
/// become smaller. A response to HEAD that has a Content-Length and no body loses the length, if
/// the body to GET may be compressed.
///
/// Do not use it for pages that have a secret and a text of the request's in them: the size would
/// reveal the secret step by step (BREACH).
///
/// Thread-safety: the loops of a server may call it at the same time; they share max_streams.
/// Errors: compress() throws std::invalid_argument for content_coding::identity among the codings.
/// Complexity: see compressor for its memory. A body of 64 KiB takes the loop some milliseconds.
[[nodiscard]] middleware compress(compress_options options = {});

}  // namespace gyre::http
