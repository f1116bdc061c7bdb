// SPDX-License-Identifier: Apache-2.0
// Tests of the buffers into which a ring receives, with a ring of their own.
#include <gyre/io/detail/buffer_ring.hpp>

#include <gyre/io/uring_support.hpp>
#include "tests/support/socket_pairs.hpp"

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace buffer_ring_test {
namespace {

using gyre::io::received;
using gyre::io::detail::buffer_ring;

class BufferRing : public testing::Test {
 protected:
  void SetUp() override {
    const gyre::io::uring_support here = gyre::io::probe_uring();
    if (!here.features.multishot_receive) GTEST_SKIP() << "no such buffers here: " << here.reason;
    ASSERT_EQ(io_uring_queue_init(8, &ring_, 0), 0);
    open_ = true;
    ASSERT_EQ(buffers_.provide_to(ring_), 0);
  }
  void TearDown() override { close(); }
  void close() {
    if (std::exchange(open_, false)) io_uring_queue_exit(&ring_);
  }

  // Receives a message; returns the number of the buffer and the count of bytes, or nothing.
  std::optional<std::pair<std::uint16_t, std::size_t>> receive(const std::string& text) {
    EXPECT_EQ(::send(ends_.second.get(), text.data(), text.size(), 0), std::ssize(text));
    io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
    io_uring_prep_recv(sqe, ends_.first.get(), nullptr, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = buffer_ring::group;
    EXPECT_EQ(io_uring_submit_and_wait(&ring_, 1), 1);
    io_uring_cqe* cqe = nullptr;
    EXPECT_EQ(io_uring_peek_cqe(&ring_, &cqe), 0);
    const io_uring_cqe came = *cqe;
    io_uring_cqe_seen(&ring_, cqe);
    if (came.res < 0) {
      EXPECT_EQ(came.res, -ENOBUFS);
      return {};
    }
    return std::pair(buffer_ring::named_by(came), static_cast<std::size_t>(came.res));
  }
  received lend(const std::string& text) {
    const auto came = receive(text);
    if (!came) return {};
    received loan = buffers_.lend(came->first, came->second);
    EXPECT_EQ(loan.text(), text);
    return loan;
  }

  buffer_ring buffers_;
  io_uring ring_{};
  bool open_ = false;
  gyre::test::fd_pair ends_ = gyre::test::unix_pair(SOCK_SEQPACKET);
};

std::string numbered(std::size_t number) { return "message " + std::to_string(number); }

TEST_F(BufferRing, LendsEachBufferOnceAndHasNoneThen) {
  std::vector<received> loans;
  std::set<const std::byte*> places;
  for (std::size_t i = 0; i < buffer_ring::buffers; ++i) {
    loans.push_back(lend(numbered(i)));
    places.insert(loans.back().data());
  }
  EXPECT_EQ(places.size(), buffer_ring::buffers);
  EXPECT_FALSE(receive("one too many"));
  for (std::size_t i = 0; i < loans.size(); ++i) EXPECT_EQ(loans[i].text(), numbered(i));
}

TEST_F(BufferRing, UsesWhatCameBackInAnyOrder) {
  std::vector<received> loans;
  for (std::size_t i = 0; i < buffer_ring::buffers; ++i) loans.push_back(lend(numbered(i)));
  for (std::size_t round = 0; round < 5; ++round) {
    for (std::size_t i = round; i < loans.size(); i += 3) loans[i].reset();
    for (std::size_t i = round; i < loans.size(); i += 3) loans[i] = lend(numbered(i));
    for (std::size_t i = 0; i < loans.size(); ++i) EXPECT_EQ(loans[i].text(), numbered(i));
  }
}

TEST_F(BufferRing, GivesANewRingOnlyWhatIsNotOnLoan) {
  std::vector<received> loans;
  for (std::size_t i = 0; i < 100; ++i) loans.push_back(lend(numbered(i)));
  close();
  loans.erase(loans.begin(), loans.begin() + 50);  // while there is no ring
  ASSERT_EQ(io_uring_queue_init(8, &ring_, 0), 0);
  open_ = true;
  ASSERT_EQ(buffers_.provide_to(ring_), 0);
  while (loans.size() < buffer_ring::buffers) {
    loans.push_back(lend(numbered(50 + loans.size())));
    ASSERT_FALSE(loans.back().empty());
  }
  EXPECT_FALSE(receive("one too many"));
  for (std::size_t i = 0; i < loans.size(); ++i) EXPECT_EQ(loans[i].text(), numbered(50 + i));
}

TEST_F(BufferRing, AQueueKeepsBytesInOrderUntilTheyAreReadOrLent) {
  buffer_ring::queue queue;
  std::string expected;
  for (std::size_t i = 0; i < 30; ++i) {
    const auto [buffer, count] = receive(numbered(i)).value();
    queue.push(buffers_, buffer, count);
    expected += numbered(i);
  }
  std::string got;
  std::array<std::byte, 7> some;
  while (got.size() < 200) {
    const std::size_t count = queue.read(buffers_, some);
    ASSERT_EQ(count, some.size());
    got.append(reinterpret_cast<const char*>(some.data()), count);
  }
  while (!queue.empty()) got += queue.pop(buffers_).text();
  EXPECT_EQ(got, expected);
  EXPECT_EQ(queue.read(buffers_, some), 0u);
  // All buffers are back.
  for (std::size_t i = 0; i < 300; ++i) EXPECT_FALSE(lend(numbered(i)).empty());
}

TEST_F(BufferRing, DroppedAndRecycledBuffersCanBeUsedAgain) {
  for (std::size_t i = 0; i < 300; ++i) {
    buffer_ring::queue queue;
    const auto [kept, count] = receive(numbered(i)).value();
    queue.push(buffers_, kept, count);
    queue.clear(buffers_);
    const auto refused = receive(numbered(i));
    ASSERT_TRUE(refused);
    buffers_.recycle(refused->first);
  }
}

}  // namespace
}  // namespace buffer_ring_test
