// SPDX-License-Identifier: Apache-2.0
// Tests of the cache of name servers' answers, with a scripted clock.
#include <gyre/net/detail/name_engine.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace dns_cache_test {

using namespace std::chrono_literals;
using gyre::net::dns_cache_options;
using gyre::net::detail::dns_cache;
using gyre::net::detail::record_type;
using gyre::net::detail::ttl_of;

using bytes = std::vector<unsigned char>;

constexpr unsigned answer_flags = 0x8180, cut_off = 0x200, name_error = 3, server_failure = 2;
constexpr unsigned type_a = 1, type_cname = 5, type_soa = 6;
constexpr gyre::steady_time start{1000s};

void append(bytes& to, unsigned number, int size) {
  for (int shift = 8 * (size - 1); shift >= 0; shift -= 8) {
    to.push_back(static_cast<unsigned char>(number >> shift & 0xff));
  }
}

// A message with a question for an address of "a", and records of that name.
class message {
 public:
  explicit message(unsigned flags = answer_flags) : flags_(flags) {}

  message& answer(unsigned type, unsigned ttl) {
    ++answers_;
    return record(type, ttl, bytes(4));
  }
  // Must follow all answers.
  message& soa(unsigned ttl, unsigned minimum) {
    ++authorities_;
    bytes data(2 + 16);
    append(data, minimum, 4);
    return record(type_soa, ttl, data);
  }
  bytes made() const {
    bytes all;
    for (const unsigned each : {0u, flags_, 1u, answers_, authorities_, 0u}) append(all, each, 2);
    all.insert(all.end(), {1, 'a', 0, 0, 1, 0, 1});
    all.insert(all.end(), records_.begin(), records_.end());
    return all;
  }

 private:
  message& record(unsigned type, unsigned ttl, const bytes& data) {
    append(records_, 0xc00c, 2);
    append(records_, type, 2);
    append(records_, 1, 2);
    append(records_, ttl, 4);
    append(records_, static_cast<unsigned>(data.size()), 2);
    records_.insert(records_.end(), data.begin(), data.end());
    return *this;
  }

  unsigned flags_;
  unsigned answers_ = 0;
  unsigned authorities_ = 0;
  bytes records_;
};

std::chrono::seconds positive(const message& from) {
  const auto ttl = ttl_of(from.made());
  return ttl.negative ? -1s : ttl.time;
}
std::chrono::seconds negative(const message& from) {
  const auto ttl = ttl_of(from.made());
  return ttl.negative ? ttl.time : -1s;
}

TEST(DnsLifetime, IsTheShortestOfTheRecordsThatAnswer) {
  EXPECT_EQ(positive(message().answer(type_cname, 30).answer(type_a, 60)), 30s);
  EXPECT_EQ(positive(message().answer(type_a, 60).answer(type_a, 20).soa(1, 1)), 20s);
  EXPECT_EQ(positive(message().answer(type_a, 0)), 0s);
  EXPECT_EQ(positive(message().answer(type_a, 0x8000'0001)), 0s) << "RFC 2181";
}

TEST(DnsLifetime, ANegativeAnswerHasTheLifetimeOfItsSoaRecord) {
  EXPECT_EQ(negative(message().soa(100, 40)), 40s);
  EXPECT_EQ(negative(message(answer_flags | name_error).soa(30, 40)), 30s);
  EXPECT_EQ(negative(message().answer(type_cname, 7).soa(30, 40)), 7s) << "an alias of nothing";
  EXPECT_EQ(negative(message()), 0s) << "nothing said, nothing kept";
}

TEST(DnsLifetime, IsNoneForWhatMayNotBeKept) {
  EXPECT_EQ(ttl_of(message(answer_flags | cut_off).answer(type_a, 60).made()).time, 0s);
  EXPECT_EQ(ttl_of(message(answer_flags | server_failure).soa(60, 60).made()).time, 0s);
  const bytes whole = message().answer(type_cname, 60).answer(type_a, 60).soa(60, 60).made();
  EXPECT_EQ(ttl_of(whole).time, 60s);
  const std::size_t answered = message().answer(type_cname, 60).answer(type_a, 60).made().size();
  for (std::size_t size = 0; size < answered; ++size) {
    EXPECT_EQ(ttl_of(std::span(whole).first(size)).time, 0s) << size;
  }
}

TEST(DnsCache, GivesAnAnswerUntilItExpires) {
  dns_cache cache({});
  const bytes kept = message().answer(type_a, 60).made();
  cache.keep("a", record_type::a, 0, kept, start);
  EXPECT_EQ(cache.find("a", record_type::aaaa, start), nullptr);
  EXPECT_EQ(cache.find("b", record_type::a, start), nullptr);
  const auto* found = cache.find("a", record_type::a, start + 59s);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(bytes(found->message.begin(), found->message.end()), kept);
  EXPECT_EQ(cache.find("a", record_type::a, start + 60s), nullptr);
  EXPECT_EQ(cache.metrics().entries, 0u);
  EXPECT_EQ(cache.metrics().bytes, 0u);
}

TEST(DnsCache, KeepsNothingLongerThanItsOptionsSay) {
  dns_cache cache({.longest_positive = 50s, .longest_negative = 5s});
  cache.keep("a", record_type::a, 0, message().answer(type_a, 1'000'000).made(), start);
  cache.keep("a", record_type::aaaa, 1, message().soa(1'000'000, 1'000'000).made(), start);
  EXPECT_NE(cache.find("a", record_type::a, start + 49s), nullptr);
  EXPECT_EQ(cache.find("a", record_type::a, start + 50s), nullptr);
  const auto* found = cache.find("a", record_type::aaaa, start + 4s);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->status, 1);
  EXPECT_EQ(cache.find("a", record_type::aaaa, start + 5s), nullptr);
}

TEST(DnsCache, TakesTheNewerAnswer) {
  dns_cache cache({});
  cache.keep("a", record_type::a, 0, message().answer(type_a, 10).made(), start);
  cache.keep("a", record_type::a, 0, message().answer(type_a, 60).made(), start);
  EXPECT_EQ(cache.metrics().entries, 1u);
  EXPECT_NE(cache.find("a", record_type::a, start + 30s), nullptr);
}

TEST(DnsCache, DropsWhatWasNotUsedForLongestWhenItIsFull) {
  dns_cache one({});
  const bytes kept = message().answer(type_a, 60).made();
  one.keep("a", record_type::a, 0, kept, start);
  dns_cache cache({.bytes = 2 * one.metrics().bytes});
  cache.keep("a", record_type::a, 0, kept, start);
  cache.keep("b", record_type::a, 0, kept, start);
  EXPECT_NE(cache.find("a", record_type::a, start), nullptr);
  cache.keep("c", record_type::a, 0, kept, start);
  EXPECT_EQ(cache.find("b", record_type::a, start), nullptr);
  EXPECT_NE(cache.find("a", record_type::a, start), nullptr);
  EXPECT_NE(cache.find("c", record_type::a, start), nullptr);
  EXPECT_LE(cache.metrics().bytes, 2 * one.metrics().bytes);
  dns_cache none({.bytes = 0});
  none.keep("a", record_type::a, 0, kept, start);
  EXPECT_EQ(none.metrics().entries, 0u);
}

}  // namespace dns_cache_test
