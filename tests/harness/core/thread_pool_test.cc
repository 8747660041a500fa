// The pool finishes all its jobs, on the requested number of threads.
#include "core/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <latch>
#include <system_error>
#include <vector>

namespace dp_bench::core {
namespace {

TEST(ThreadPool, FinishesEveryJobBeforeItGoes) {
  std::atomic<int> n_done = 0;
  {
    ThreadPool pool(3);
    EXPECT_EQ(pool.size(), 3);
    for (int i = 0; i < 1000; ++i) pool.Submit([&] { ++n_done; });
  }
  EXPECT_EQ(n_done, 1000);
}

TEST(ThreadPool, OneThreadKeepsTheOrder) {
  std::vector<int> order;
  {
    ThreadPool pool(1);
    for (int i = 0; i < 100; ++i) pool.Submit([&order, i] { order.push_back(i); });
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(ThreadPool, ThreadsWorkAtTheSameTime) {
  std::latch all_are_here(4);
  ThreadPool pool(4);
  for (int i = 0; i < 4; ++i) pool.Submit([&] { all_are_here.arrive_and_wait(); });
  all_are_here.wait();
}

TEST(ThreadPool, JobsMaySubmitJobs) {
  std::atomic<int> n_done = 0;
  {
    ThreadPool pool(2);
    pool.Submit([&] {
      for (int i = 0; i < 10; ++i) pool.Submit([&] { ++n_done; });
    });
  }
  EXPECT_EQ(n_done, 10);
}

TEST(ThreadPool, CountBelowOneMeansOnePerUsableProcessor) {
  EXPECT_EQ(ResolveThreadCount(5), 5);
  EXPECT_GE(ResolveThreadCount(0), 1);
  EXPECT_EQ(ThreadPool(0).size(), ResolveThreadCount(0));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need address space
TEST(ThreadPool, ARefusedThreadIsAnErrorAndTheOthersAreJoined) {
  const auto start_too_many = [] {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t limit = pages * static_cast<rlim_t>(getpagesize()) + (rlim_t{64} << 20);
    const rlimit address_space = {.rlim_cur = limit, .rlim_max = limit};
    setrlimit(RLIMIT_AS, &address_space);
    try {
      ThreadPool pool(1000);
    } catch (const std::system_error&) {
      _exit(7);
    }
    _exit(0);
  };
  EXPECT_EXIT(start_too_many(), testing::ExitedWithCode(7), "");
}
#endif

}  // namespace
}  // namespace dp_bench::core
