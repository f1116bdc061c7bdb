// SPDX-License-Identifier: Apache-2.0
// How many of the vectors in tests/http/vectors a server passes: it is sent each of the requests on
// a connection of its own, and must answer the ones that are to be accepted, and refuse the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lab::http {

/// A verdict on a request.
enum class verdict {
  accepts,    ///< it is answered: 2xx, 3xx, or a status that is about the resource, as 404 and 405
  refuses,    ///< it gets a status that is about the message, as 400, or the connection is closed
  incomplete  ///< nothing happens, as more bytes could come
};

/// A request of the vectors, whole.
struct request_vector {
  std::string name;
  std::string bytes;
  verdict expected = verdict::accepts;
};

/// Turns \r \n \t \0 \\ \xHH and \*N{text} into bytes. Throws std::runtime_error.
std::string unescaped(std::string_view text);

/// The requests, and the chunked bodies behind a head, but for limits.txt, as limits are a matter
/// of settings. Throws std::runtime_error when there are none.
std::vector<request_vector> read_request_vectors();

/// The verdict of an answer that begins with these bytes; incomplete if its final status has not
/// come.
verdict verdict_of(std::string_view answer);

/// The result of a server.
struct vectors_result {
  std::size_t passed = 0;
  std::vector<std::string> failed;  ///< names, and the verdict
};

/// Sends all at once, and waits until a quarter of a second has passed without a byte. The answer
/// 413 passes in any case: bodies of any length are valid, and too long for some setting.
/// Errors: throws std::system_error.
vectors_result judge_server(std::uint16_t port, const std::vector<request_vector>& vectors);

}  // namespace lab::http
