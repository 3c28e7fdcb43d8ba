package hareline.jms.qpid;

/** {@link BrowserCases} with destinations in ADDR syntax. */
class AddrBrowserTest extends BrowserCases {
  @Override
  protected Syntax syntax() {
    return Syntax.ADDR;
  }
}
