package hareline.jms.qpid;

/** {@link SelectorCases} with destinations in ADDR syntax. */
class AddrSelectorTest extends SelectorCases {
  @Override
  protected Syntax syntax() {
    return Syntax.ADDR;
  }
}
