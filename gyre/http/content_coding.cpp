// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/content_coding.hpp>

#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/parameters.hpp>
#include <gyre/http/detail/quality.hpp>

#include <cstddef>

namespace gyre::http {
namespace {

constexpr std::size_t coding_count = 4;

// The qualities of a client's Accept-Encoding, in thousandths; nullopt for codings that it does not
// list.
struct preferences {
  std::array<std::optional<unsigned>, coding_count> listed_weights = {};
  std::optional<unsigned> other_weight = {};
};

// Reads a list of codings with qualities; returns false if it is malformed. If a name occurs
// several times, its first quality counts.
bool read(std::string_view text, preferences& result) noexcept {
  while (!text.empty()) {
    std::string_view item = detail::trim(detail::take_until(text, ','));
    if (item.empty()) continue;
    const std::string_view name = detail::take_while(detail::in_token, item);
    unsigned quality = 1000;
    item = detail::trim(item);
    if (name.empty() || (!item.empty() && item.front() != ';')) return false;
    item = detail::without_empty_parameters(item);
    if (!item.empty()) {
      item = detail::trim(item.substr(1));
      if (!item.starts_with("q=") && !item.starts_with("Q=")) return false;
      std::string_view rest = item.substr(2);
      const auto value = detail::parse_quality(detail::trim(detail::take_until(rest, ';')));
      if (!value || !detail::without_empty_parameters(rest).empty()) return false;
      quality = *value;
    }
    const auto coding = content_coding_of(name);
    if (!coding && name != "*") continue;
    auto& entry =
        coding ? result.listed_weights[static_cast<std::size_t>(*coding)] : result.other_weight;
    if (!entry) entry = quality;
  }
  return true;
}

}  // namespace

std::optional<content_coding> content_coding_of(std::string_view name) noexcept {
  for (const content_coding coding :
       {content_coding::identity, content_coding::gzip, content_coding::zstd, content_coding::br}) {
    if (detail::equals_ignoring_case(name, to_text(coding))) return coding;
  }
  if (detail::equals_ignoring_case(name, "x-gzip")) return content_coding::gzip;
  return std::nullopt;
}

std::optional<content_coding> negotiate_coding(std::string_view accept_encoding,
                                               std::span<const content_coding> codings) noexcept {
  preferences client;
  if (!read(accept_encoding, client)) return content_coding::identity;
  // Qualities of listed codings are doubled: weight 1, for identity when it is not listed, is then
  // less than every quality above 0.
  const auto& listed_identity =
      client.listed_weights[static_cast<std::size_t>(content_coding::identity)];
  unsigned best_weight = client.other_weight == 0U ? 0 : 1;
  if (listed_identity) best_weight = *listed_identity * 2;
  content_coding result = content_coding::identity;
  for (const content_coding coding : codings) {
    if (coding == content_coding::identity) continue;
    const auto& preference = client.listed_weights[static_cast<std::size_t>(coding)];
    const unsigned weight = preference.value_or(client.other_weight.value_or(0)) * 2;
    if (weight == 0 || weight < best_weight || (weight == best_weight && coding < result)) continue;
    result = coding;
    best_weight = weight;
  }
  if (best_weight == 0) return std::nullopt;
  return result;
}

}  // namespace gyre::http
