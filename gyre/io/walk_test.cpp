// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/walk.hpp>

#include <gyre/io/detail/directory_stack.hpp>
#include <gyre/io/file_type.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/system_call_faults.hpp>
#include <tests/support/droppable.hpp>
#include <tests/support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace walk_test {
namespace {

using gyre::sync_wait;
using gyre::task;
using gyre::io::file_type;
using gyre::io::walk;
using gyre::io::walk_entry;
using gyre::io::walk_options;
using gyre::test::temporary_folder;
using gyre::testing::open_descriptors;

task<std::vector<walk_entry>> all_below(std::string root, walk_options options = {},
                                        gyre::executor* pool = nullptr) {
  std::vector<walk_entry> all;
  auto tree = walk(std::move(root), options, pool);
  while (walk_entry* const entry = co_await tree.next()) all.push_back(std::move(*entry));
  co_return all;
}

std::set<std::string> paths_below(const std::string& root, walk_options options = {}) {
  std::set<std::string> paths;
  for (walk_entry& each : sync_wait(all_below(root, options))) {
    EXPECT_FALSE(each.error) << each.path;
    EXPECT_TRUE(paths.insert(std::move(each.path)).second) << "twice";
  }
  return paths;
}

std::set<std::string> paths_by_the_standard_library(const std::string& root) {
  std::set<std::string> paths;
  for (const auto& each : std::filesystem::recursive_directory_iterator(root)) {
    paths.insert(each.path().string());
  }
  return paths;
}

std::error_code error_below(const std::string& root, walk_options options = {},
                            gyre::executor* pool = nullptr) {
  try {
    sync_wait(all_below(root, options, pool));
  } catch (const std::system_error& error) {
    return error.code();
  }
  return {};
}

std::ptrdiff_t count_of(const std::vector<walk_entry>& all, std::errc error) {
  return std::ranges::count_if(all, [=](const walk_entry& each) { return each.error == error; });
}

TEST(Walk, FindsAllNamesWithTypesAndDepths) {
  const temporary_folder folder;
  folder.make_folder("a/b/c");
  folder.make_file("a/b/c/file");
  folder.make_file("top");
  folder.link("a/up", folder.path());
  std::map<std::string, std::pair<file_type, std::size_t>> found;
  for (const walk_entry& each : sync_wait(all_below(folder.path()))) {
    found.emplace(each.path, std::pair(each.type, each.depth));
    EXPECT_TRUE(each.path.ends_with(std::string("/") + std::string(each.name())));
  }
  EXPECT_EQ(found, (std::map<std::string, std::pair<file_type, std::size_t>>{
                       {folder / "a", {file_type::directory, 1}},
                       {folder / "a/b", {file_type::directory, 2}},
                       {folder / "a/b/c", {file_type::directory, 3}},
                       {folder / "a/b/c/file", {file_type::regular, 4}},
                       {folder / "a/up", {file_type::symlink, 2}},
                       {folder / "top", {file_type::regular, 1}}}));
}

TEST(Walk, TellsTheSizesOfFilesIfAsked) {
  const temporary_folder folder;
  folder.make_folder("a");
  folder.make_file("a/five");
  std::filesystem::resize_file(folder / "a/five", 5);
  folder.make_file("empty");
  folder.link("link", "a/five");
  std::map<std::string, std::uint64_t> sizes;
  for (const walk_entry& each : sync_wait(all_below(folder.path(), {.sizes = true}))) {
    sizes.emplace(each.path, each.size);
  }
  EXPECT_EQ(
      sizes,
      (std::map<std::string, std::uint64_t>{
          {folder / "a", 0}, {folder / "a/five", 5}, {folder / "empty", 0}, {folder / "link", 0}}));
  for (const walk_entry& each : sync_wait(all_below(folder.path()))) EXPECT_EQ(each.size, 0U);
}

TEST(Walk, FindsADirectoryBeforeTheNamesInIt) {
  const temporary_folder folder;
  folder.make_folder("a/b/c");
  folder.make_folder("d/e");
  std::set<std::string> before{folder.path()};
  for (const walk_entry& each : sync_wait(all_below(folder.path()))) {
    EXPECT_TRUE(before.contains(each.path.substr(0, each.path.rfind('/')))) << each.path;
    before.insert(each.path);
  }
}

TEST(Walk, BeginsAtARootWithASlashOrASymlink) {
  const temporary_folder folder;
  folder.make_folder("a");
  folder.make_file("a/file");
  folder.link("link", "a");
  EXPECT_EQ(paths_below(folder / "a/"), std::set{folder / "a/file"});
  EXPECT_EQ(paths_below(folder / "link"), std::set{folder / "link/file"});
}

// Deeper than directories stay open, with names that come before and after each subdirectory.
void make_deep(const temporary_folder& folder, std::size_t depth) {
  std::string path = "deep";
  for (std::size_t each = 0; each < depth; ++each) {
    folder.make_folder(path);
    for (const char* const name : {"/1", "/2", "/3", "/4"}) folder.make_file(path + name);
    folder.make_folder(path + "/side/way");
    path += "/down";
  }
}

TEST(Walk, GoesDeepWithFewDescriptors) {
  const temporary_folder folder;
  make_deep(folder, 60);
  const std::set<std::string> expected = paths_by_the_standard_library(folder.path());
  const int before = open_descriptors();
  int most = 0;
  std::set<std::string> found;
  const auto work = [&]() -> task<> {
    auto tree = walk(folder.path());
    while (walk_entry* const entry = co_await tree.next()) {
      found.insert(entry->path);
      most = std::max(most, open_descriptors() - before);
    }
  };
  sync_wait(work());
  EXPECT_EQ(found, expected);
  EXPECT_LE(most, static_cast<int>(gyre::io::detail::directory_stack::max_open) + 1);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Walk, EndsAtTheMaximalDepth) {
  const temporary_folder folder;
  folder.make_folder("a/b/c");
  EXPECT_EQ(paths_below(folder.path(), {.max_depth = 0}), std::set<std::string>());
  EXPECT_EQ(paths_below(folder.path(), {.max_depth = 1}), std::set{folder / "a"});
  EXPECT_EQ(paths_below(folder.path(), {.max_depth = 2}), (std::set{folder / "a", folder / "a/b"}));
}

TEST(Walk, DescendsOnlyWhereItIsWanted) {
  const temporary_folder folder;
  folder.make_folder(".git/objects");
  folder.make_folder("src/.git");
  folder.make_file("src/.git/config");
  const auto wanted = [](const walk_entry& directory) { return directory.name() != ".git"; };
  EXPECT_EQ(paths_below(folder.path(), {.descend = wanted}),
            (std::set{folder / ".git", folder / "src", folder / "src/.git"}));
}

TEST(Walk, FollowsSymlinksIfAsked) {
  const temporary_folder folder;
  const temporary_folder other;
  other.make_folder("in");
  other.make_file("in/file");
  folder.link("link", other.path());
  folder.link("dangling", "nowhere");
  EXPECT_EQ(paths_below(folder.path()), (std::set{folder / "dangling", folder / "link"}));
  EXPECT_EQ(paths_below(folder.path(), {.follow_symlinks = true}),
            (std::set{folder / "dangling", folder / "link", folder / "link/in",
                      folder / "link/in/file"}));
}

// The directories before a symlink are reached again though ".." leads elsewhere.
TEST(Walk, ComesBackThroughSymlinksFromDeepBelow) {
  const temporary_folder folder;
  const temporary_folder other;
  make_deep(other, 30);
  folder.make_folder("a");
  folder.link("a/link", other.path());
  folder.make_file("a/x");
  folder.make_file("z");
  const std::size_t below = paths_by_the_standard_library(other.path()).size();
  EXPECT_EQ(paths_below(folder.path(), {.follow_symlinks = true}).size(), below + 4);
}

TEST(Walk, TellsLoopsOfSymlinks) {
  const temporary_folder folder;
  folder.make_folder("a/b");
  folder.link("a/b/up", folder / "a");
  EXPECT_EQ(error_below(folder.path(), {.follow_symlinks = true}),
            std::errc::too_many_symbolic_link_levels);
  std::vector<std::string> failed;
  for (const walk_entry& each :
       sync_wait(all_below(folder.path(), {.follow_symlinks = true, .report_errors = true}))) {
    if (each.error) failed.push_back(each.path);
  }
  EXPECT_EQ(failed, std::vector{folder / "a/b/up"});
}

TEST(Walk, TellsErrorsOfTheRoot) {
  const temporary_folder folder;
  EXPECT_EQ(error_below(folder / "none"), std::errc::no_such_file_or_directory);
  EXPECT_EQ(error_below(folder.make_file("file")), std::errc::not_a_directory);
  EXPECT_EQ(error_below(folder.path() + '\0'), std::errc::invalid_argument);
  try {
    sync_wait(all_below("/no/such/folder", {.report_errors = true}));
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_STREQ(error.what(), "walk /no/such/folder: No such file or directory");
  }
  try {
    sync_wait(all_below(std::string("/no\0such", 8)));
    ADD_FAILURE();
  } catch (const std::system_error& error) {
    EXPECT_STREQ(error.what(),
                 "walk /no\\0such (a path cannot have a zero byte): Invalid argument");
  }
}

TEST(Walk, EndsWithAnErrorAfterTheEntriesBefore) {
  const temporary_folder folder;
  folder.make_folder("a");
  folder.make_file("a/file");
  const int descriptors = open_descriptors();
  std::vector<std::string> found;
  const auto work = [&]() -> task<> {
    auto tree = walk(folder.path(), {}, &gyre::inline_executor());
    while (walk_entry* const entry = co_await tree.next()) found.push_back(entry->path);
  };
  try {
    const gyre::testing::fault broken("openat", EACCES, {.after = 1});
    sync_wait(work());
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.what(), "walk " + (folder / "a") + ": Permission denied");
  }
  EXPECT_EQ(found, std::vector{folder / "a"});
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST(Walk, ReportsADirectoryThatCannotBeOpenedAndGoesOn) {
  const temporary_folder folder;
  for (const char* const name : {"a", "b", "c"}) {
    folder.make_file(folder.make_folder(name).substr(folder.path().size() + 1) + "/file");
  }
  const gyre::testing::fault broken("openat", EACCES, {.after = 2});
  const auto all =
      sync_wait(all_below(folder.path(), {.report_errors = true}, &gyre::inline_executor()));
  EXPECT_EQ(all.size(), 5U);
  EXPECT_EQ(count_of(all, std::errc::permission_denied), 1);
}

TEST(Walk, ReportsADirectoryThatCannotBeReadAndGoesOn) {
  const temporary_folder folder;
  folder.make_folder("a");
  folder.make_file("a/file");
  folder.make_file("b");
  const gyre::testing::fault broken("getdents64", EIO, {.after = 1});  // that of "a"
  const auto all =
      sync_wait(all_below(folder.path(), {.report_errors = true}, &gyre::inline_executor()));
  std::multiset<std::string> paths;
  for (const walk_entry& each : all) paths.insert(each.path);
  EXPECT_EQ(paths, (std::multiset{folder / "a", folder / "a", folder / "b"}));
  EXPECT_EQ(count_of(all, std::errc::io_error), 1);
}

TEST(Walk, LeavesOutTheNamesOfADirectoryThatVanishes) {
  const temporary_folder folder;
  folder.make_folder("a");
  for (const int gone : {ENOENT, ENOTDIR}) {
    const gyre::testing::fault vanished("openat", gone, {.after = 1});
    const auto all = sync_wait(all_below(folder.path(), {}, &gyre::inline_executor()));
    ASSERT_EQ(all.size(), 1U);
    EXPECT_FALSE(all[0].error);
    EXPECT_EQ(vanished.hits(), 1);
  }
}

TEST(Walk, MayBeAbandonedHalfway) {
  const temporary_folder folder;
  make_deep(folder, 60);
  const int before = open_descriptors();
  {
    auto tree = walk(folder.path());
    EXPECT_NE(sync_wait(tree.next()), nullptr);
    EXPECT_GT(open_descriptors(), before);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Walk, IsStoppedBetweenBatches) {
  const temporary_folder folder;
  folder.make_files("many", 700);
  gyre::testing::manual_executor pool;
  gyre::testing::manual_executor home;
  gyre::inplace_stop_source source;
  int found = 0;
  bool cancelled = false;
  const auto work = [&]() -> task<> {
    auto tree = walk(folder.path(), {}, &pool);
    try {
      while (co_await tree.next() != nullptr) ++found;
    } catch (const gyre::operation_cancelled&) {
      cancelled = true;
    }
  };
  const int before = open_descriptors();
  gyre::spawn(home, work(), {.stop = source.get_token()});
  home.run_all();
  pool.run_all();
  home.run_all();
  EXPECT_EQ(found, 256);
  source.request_stop();
  home.run_all();
  EXPECT_TRUE(cancelled);
  EXPECT_EQ(found, 256);
  EXPECT_EQ(open_descriptors(), before);
  pool.run_all();
}

gyre::test::droppable walks(gyre::executor&, std::string root, gyre::executor* pool) {
  auto tree = walk(std::move(root), {}, pool);
  while (co_await tree.next() != nullptr) ADD_FAILURE() << "went on";
}

TEST(Walk, MayBeDestroyedWhileItWaits) {
  const temporary_folder folder;
  folder.make_folder("a/b");
  gyre::testing::manual_executor pool;
  gyre::testing::manual_executor home;
  const int before = open_descriptors();
  for (const bool has_ended : {false, true}) {
    auto waiting = walks(home, folder.path(), &pool);
    if (has_ended) pool.run_all();
    waiting.drop();
    pool.run_all();
    home.run_all();
    EXPECT_EQ(open_descriptors(), before);
  }
}

TEST(Walk, CannotLeaveTheTreeWhileItChanges) {
  const temporary_folder folder;
  const temporary_folder outside;
  outside.make_folder("x");
  outside.make_file("x/secret");
  folder.make_folder("a/x");
  folder.make_file("a/x/file");
  folder.link("link", outside / "x");
  std::jthread swaps([&](const std::stop_token& stop) {
    const std::string real = folder / "a/x";
    const std::string link = folder / "link";
    const std::string spare = folder / "spare";
    while (!stop.stop_requested()) {
      std::filesystem::rename(real, spare);
      std::filesystem::rename(link, real);
      std::filesystem::rename(real, link);
      std::filesystem::rename(spare, real);
    }
  });
  for (int round = 0; round < 300; ++round) {
    for (const walk_entry& each : sync_wait(all_below(folder.path()))) {
      EXPECT_NE(each.name(), "secret") << each.path;
    }
  }
}

// ---- the way through a tree

using gyre::io::detail::directory_stack;

TEST(DirectoryStack, TellsThatADirectoryWasMovedAway) {
  const temporary_folder folder;
  std::string path = "deep";
  for (int each = 0; each < 20; ++each) path += "/down";
  folder.make_folder(path);
  folder.make_folder("elsewhere");
  directory_stack way(folder / "deep");
  ASSERT_EQ(way.open_root(AT_FDCWD, way.path().c_str(), 0), 0);
  for (int each = 0; each < 20; ++each) ASSERT_EQ(way.enter("down", false), 0);
  // The parent of the third is not open, and no longer its "..".
  std::filesystem::rename(folder / "deep/down/down", folder / "elsewhere/down");
  while (way.depth() > 3) ASSERT_EQ(way.leave(), 0);
  EXPECT_EQ(way.leave(), ESTALE);
}

TEST(DirectoryStack, EntersNoMoreSymlinksThanAPathMayHave) {
  const temporary_folder folder;
  const temporary_folder other;
  for (std::size_t each = 0; each <= directory_stack::max_symlinks; ++each) {
    const std::string name = std::to_string(each);
    folder.make_folder(name);
    folder.link(name + "/next", folder / std::to_string(each + 1));
  }
  directory_stack way(folder / "0");
  ASSERT_EQ(way.open_root(AT_FDCWD, way.path().c_str(), 0), 0);
  for (std::size_t each = 0; each < directory_stack::max_symlinks; ++each) {
    ASSERT_EQ(way.enter("next", true), 0);
  }
  EXPECT_EQ(way.enter("next", true), ELOOP);
  while (way.depth() > 0) ASSERT_EQ(way.leave(), 0);
}

TEST(DirectoryStack, TellsThatItCannotComeBack) {
  const temporary_folder folder;
  std::string path = "deep";
  for (std::size_t each = 0; each < directory_stack::max_open; ++each) path += "/down";
  folder.make_folder(path);
  for (const char* const call : {"openat", "statx", "lseek"}) {
    directory_stack way(folder / "deep");
    ASSERT_EQ(way.open_root(AT_FDCWD, way.path().c_str(), 0), 0);
    while (way.depth() <= directory_stack::max_open) ASSERT_EQ(way.enter("down", false), 0);
    while (way.depth() > 2) ASSERT_EQ(way.leave(), 0);
    const gyre::testing::fault broken(call, EIO);
    EXPECT_EQ(way.leave(), EIO) << call;
  }
}

}  // namespace
}  // namespace walk_test
