// SPDX-License-Identifier: Apache-2.0
// Helpers of the fuzz targets of HTTP/1 messages: texts of likely pieces, and the check that a
// verdict does not depend on how a message is cut.
#pragma once

#include <tests/fuzz/fuzz.hpp>
#include <tests/http/http_vectors.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace gyre::fuzz {

/// A text of `pieces` and, now and then, arbitrary bytes.
inline std::string make_message(decisions& decide, std::span<const std::string_view> pieces) {
  std::string text;
  while (!decide.empty() && text.size() < 4096) {
    if (decide.below(16) == 0) {
      text += decide.text(1 + decide.below(4));
    } else {
      text += pieces[decide.below(pieces.size())];
    }
  }
  return text;
}

/// Requires the verdict to be the same for the whole, for two parts and for single bytes. Returns
/// it.
inline std::string require_same_verdict(std::string_view direction, std::string_view bytes,
                                        std::size_t cut) {
  http::test::message_judge whole(direction);
  whole.feed(bytes);
  http::test::message_judge parts(direction);
  if (parts.feed(bytes.substr(0, cut % (bytes.size() + 1)))) parts.feed(bytes);
  http::test::message_judge single(direction);
  for (std::size_t end = 0; end <= bytes.size() && single.feed(bytes.substr(0, end)); ++end) {
  }
  require(parts.verdict() == whole.verdict() && single.verdict() == whole.verdict());
  return whole.verdict();
}

}  // namespace gyre::fuzz
