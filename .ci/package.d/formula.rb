# Homebrew formula of toolmark. `.ci/package formula` fills it from the tarballs that are there; a tap holds the result.
class Toolmark < Formula
  desc "OpenAI-compatible reverse proxy that enforces tool-call integrity"
  homepage "@HOMEPAGE@"
  version "@VERSION@"
  license "Apache-2.0"

@PLATFORMS@
  def install
    bin.install "bin/toolmark"
    man1.install Dir["share/man/man1/*.1"]
    bash_completion.install "share/bash-completion/completions/toolmark"
    zsh_completion.install "share/zsh/site-functions/_toolmark"
    fish_completion.install "share/fish/vendor_completions.d/toolmark.fish"
    pkgshare.install "share/toolmark/policies"
    doc.install Dir["share/doc/toolmark/*"]
  end

  test do
    system bin/"toolmark", "demo"
  end
end
