// A module of clang-tidy 14 for scripts/check.sh: checks look at our own declarations, not at those
// of the headers of LibTorch, GoogleTest and the standard library, which are not ours to change.
// That takes a third of the time.
#include <clang-tidy/ClangTidyCheck.h>
#include <clang-tidy/ClangTidyModule.h>
#include <clang-tidy/ClangTidyModuleRegistry.h>
#include <clang/AST/ASTContext.h>
#include <clang/ASTMatchers/ASTMatchFinder.h>

#include <vector>

namespace {

using clang::ast_matchers::MatchFinder;
using clang::tidy::ClangTidyCheck;
using clang::tidy::ClangTidyCheckFactories;
using clang::tidy::ClangTidyModule;
using clang::tidy::ClangTidyModuleRegistry;

class OwnCode : public ClangTidyCheck {
 public:
  using ClangTidyCheck::ClangTidyCheck;

  void registerMatchers(MatchFinder* finder) override {
    finder->addMatcher(clang::ast_matchers::translationUnitDecl(), this);
  }

  // Called for the whole, before its declarations are visited.
  void check(const MatchFinder::MatchResult& result) override {
    std::vector<clang::Decl*> own;
    for (clang::Decl* declaration : result.Context->getTranslationUnitDecl()->decls()) {
      const auto place = result.SourceManager->getExpansionLoc(declaration->getLocation());
      if (!result.SourceManager->isInSystemHeader(place)) own.push_back(declaration);
    }
    result.Context->setTraversalScope(own);
  }
};

class OwnCodeModule : public ClangTidyModule {
 public:
  void addCheckFactories(ClangTidyCheckFactories& factories) override {
    factories.registerCheck<OwnCode>("dpb-own-code");
  }
};

const ClangTidyModuleRegistry::Add<OwnCodeModule> kModule("dpb", "leaves out headers of others");

}  // namespace
