// SPDX-License-Identifier: Apache-2.0
//
// Tests of the owner of a file descriptor.
#include <gyre/base/unique_fd.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/eventfd.h>

#include <type_traits>

namespace unique_fd_test {
namespace {

using gyre::unique_fd;

static_assert(!std::is_copy_constructible_v<unique_fd>);
static_assert(std::is_nothrow_move_constructible_v<unique_fd>);

unique_fd opened() { return unique_fd{::eventfd(0, EFD_CLOEXEC)}; }
bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFd, ClosesWhenDestroyed) {
  int number = -1;
  {
    const unique_fd fd = opened();
    ASSERT_TRUE(fd);
    number = fd.get();
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(UniqueFd, NoneIsFalseAndClosesNothing) {
  unique_fd none;
  EXPECT_FALSE(none);
  EXPECT_LT(none.get(), 0);
  none.reset();
  EXPECT_FALSE(unique_fd{-1});
}

TEST(UniqueFd, MoveHandsTheDescriptorOver) {
  unique_fd source = opened();
  const int number = source.get();
  unique_fd target{std::move(source)};
  EXPECT_FALSE(source);  // NOLINT(bugprone-use-after-move): stated
  EXPECT_EQ(target.get(), number);

  unique_fd other = opened();
  const int replaced = other.get();
  other = std::move(target);
  EXPECT_FALSE(is_open(replaced));
  EXPECT_EQ(other.get(), number);
  EXPECT_TRUE(is_open(number));
}

TEST(UniqueFd, SelfMoveKeepsTheDescriptor) {
  unique_fd fd = opened();
  unique_fd& same = fd;
  fd = std::move(same);
  EXPECT_TRUE(fd);
  EXPECT_TRUE(is_open(fd.get()));
}

TEST(UniqueFd, ReleaseGivesUpWithoutClosing) {
  unique_fd fd = opened();
  const unique_fd again{fd.release()};
  EXPECT_FALSE(fd);
  EXPECT_TRUE(is_open(again.get()));
}

TEST(UniqueFd, ResetClosesTheOldAndOwnsTheNew) {
  unique_fd fd = opened();
  const int old = fd.get();
  unique_fd next = opened();
  const int number = next.get();
  fd.reset(next.release());
  EXPECT_FALSE(is_open(old));
  EXPECT_EQ(fd.get(), number);
  fd.reset();
  EXPECT_FALSE(is_open(number));
}

TEST(UniqueFd, SwapExchanges) {
  unique_fd a = opened(), b;
  const int number = a.get();
  swap(a, b);
  EXPECT_FALSE(a);
  EXPECT_EQ(b.get(), number);
}

TEST(UniqueFd, ClosingKeepsErrno) {
  unique_fd fd = opened();
  errno = EAGAIN;
  fd.reset();
  EXPECT_EQ(errno, EAGAIN);
}

#if !defined(NDEBUG)
TEST(UniqueFdDeathTest, ForeignCloseIsCaughtInDebugBuilds) {
  EXPECT_DEATH(
      {
        unique_fd fd = opened();
        ::close(fd.get());
        fd.reset();
      },
      "another owner closed");
}
#endif

}  // namespace
}  // namespace unique_fd_test
