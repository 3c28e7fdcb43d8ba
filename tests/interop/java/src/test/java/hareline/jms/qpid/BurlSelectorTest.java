package hareline.jms.qpid;

/** {@link SelectorCases} with destinations in BURL syntax. */
class BurlSelectorTest extends SelectorCases {
  @Override
  protected Syntax syntax() {
    return Syntax.BURL;
  }
}
