// The package brings no types; these are of what flame.ts uses.
declare module "d3-flame-graph" {
  import type { HierarchyRectangularNode, Selection } from "d3";

  interface Frame {
    name: string;
    value: number;
    children?: Frame[];
  }

  interface FlameGraph {
    (selection: Selection<HTMLElement, Frame, null, undefined>): void;
    width(pixels: number): FlameGraph;
    cellHeight(pixels: number): FlameGraph;
    minFrameSize(pixels: number): FlameGraph;
    transitionDuration(milliseconds: number): FlameGraph;
    sort(sorted: boolean): FlameGraph;
    selfValue(self: boolean): FlameGraph;
    label(text: (node: HierarchyRectangularNode<Frame>) => string): FlameGraph;
    setColorMapper(color: (node: { data: Frame; highlight?: boolean }, original: string) => string): FlameGraph;
    search(term: string): void;
    resetZoom(): void;
    destroy(): FlameGraph;
  }

  export default function flamegraph(): FlameGraph;
}
